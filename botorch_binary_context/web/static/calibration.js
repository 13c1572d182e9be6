// How large pixels are and how far away the eyes, and whether that still holds.

import { announce, element, find, formatNumber, showScreen } from "./dom.js";
import { CARD, limitsOf } from "./geometry.js";
import { text } from "./strings.js";

const STORE = "binary-context screen";
const DEFAULT = { pixelsPerMm: 96 / 25.4, distance: 4000 };
const PIXELS_PER_MM = { low: 1.5, high: 14 };
const DISTANCE = { low: 100, high: 20000 }; // millimeters

// What must not change after a calibration.
function viewNow() {
  return {
    pixelRatio: window.devicePixelRatio,
    scale: window.visualViewport?.scale ?? 1,
  };
}

export class Screen {
  constructor() {
    const kept = JSON.parse(localStorage.getItem(STORE) ?? "null");
    const fits = kept !== null && kept.pixelRatio === window.devicePixelRatio;
    Object.assign(this, DEFAULT, fits ? kept : {}, viewNow());
  }

  get hasChanged() {
    const now = viewNow();
    return now.pixelRatio !== this.pixelRatio || Math.abs(now.scale - this.scale) > 1e-3;
  }

  // room: the smaller side of where letters are shown, in CSS pixels.
  limits(room) {
    return limitsOf(this, room, window.devicePixelRatio);
  }

  // The smallest honest size in logMAR.
  get smallest() {
    return this.limits(Infinity).smallest;
  }

  // Ask for the size of a card and the distance; bounds: the sizes of the experiment.
  calibrate(bounds) {
    return new Promise((resolve) => new Form(this, bounds, resolve).show());
  }

  keep() {
    Object.assign(this, viewNow());
    const { pixelsPerMm, distance, pixelRatio } = this;
    localStorage.setItem(STORE, JSON.stringify({ pixelsPerMm, distance, pixelRatio }));
  }
}

class Form {
  constructor(screen, bounds, resolve) {
    this.screen = screen;
    this.bounds = bounds;
    this.resolve = resolve;
    // On a narrow screen the card stands upright.
    this.isUpright = window.innerWidth < 420;
  }

  show() {
    this.frame = element("div", { class: "bank-card", id: "bank-card" });
    this.slider = element("input", {
      id: "card-slider",
      type: "range",
      min: PIXELS_PER_MM.low,
      max: PIXELS_PER_MM.high,
      step: "0.01",
      value: this.screen.pixelsPerMm,
      "aria-describedby": "card-text",
      oninput: () => this.update(),
    });
    this.distance = element("input", {
      id: "distance",
      type: "number",
      inputmode: "decimal",
      min: DISTANCE.low / 10,
      max: DISTANCE.high / 10,
      step: "any",
      value: Number((this.screen.distance / 10).toFixed(1)),
      oninput: () => this.update(),
    });
    this.note = element("p", { id: "limits", "aria-live": "polite" });
    const done = { class: "main", id: "calibrated", onclick: () => this.finish() };
    this.button = element("button", done, text("calibrationDone"));
    showScreen(
      element(
        "section",
        { class: "card wide" },
        element("h1", {}, text("calibration")),
        element("p", { id: "card-text" }, text("cardText")),
        element("label", { for: "card-slider" }, text("cardSlider")),
        this.slider,
        this.frame,
        element("h2", {}, text("distance")),
        element("label", { for: "distance" }, text("distanceLabel")),
        this.distance,
        this.note,
        element("p", {}, text("keepZoom")),
        element("div", { class: "actions" }, this.button),
      ),
    );
    this.update();
  }

  update() {
    const pixelsPerMm = Number(this.slider.value);
    const sides = [CARD.width * pixelsPerMm, CARD.height * pixelsPerMm];
    const [width, height] = this.isUpright ? sides.reverse() : sides;
    this.frame.style.width = `${width}px`;
    this.frame.style.height = `${height}px`;
    const distance = 10 * this.distance.valueAsNumber;
    const isGiven = distance >= DISTANCE.low && distance <= DISTANCE.high;
    Object.assign(this.screen, { pixelsPerMm, ...(isGiven ? { distance } : {}) });
    const message = isGiven ? this.describeLimits() : text("badDistance");
    this.button.disabled = !isGiven || this.problem !== null;
    this.note.textContent = message;
  }

  describeLimits() {
    const room = Math.min(window.innerWidth, 0.6 * window.innerHeight);
    const { smallest, largest } = this.screen.limits(room);
    this.problem = problemWith(this.bounds, { smallest, largest });
    if (this.problem) {
      return text(this.problem);
    }
    const decimal = formatNumber(Number((10 ** -smallest).toPrecision(2)));
    const logmar = formatNumber(Number(smallest.toFixed(2)));
    const parts = [text("smallest", { logmar, decimal })];
    if (smallest > this.bounds.low) {
      parts.push(text("belowSmallest"));
    }
    parts.push(text("largest", { logmar: formatNumber(Number(largest.toFixed(2))) }));
    return parts.join(" ");
  }

  finish() {
    this.screen.keep();
    this.resolve();
  }
}

// Why no size of an experiment can be shown, if so.
export function problemWith(bounds, limits) {
  if (limits.smallest > bounds.high) {
    return "tooNear";
  }
  return limits.largest < bounds.low ? "tooFar" : null;
}

// Wait until the zoom is what it was, or the screen was measured again.
export function waitForScreen(calibrate, problem) {
  return new Promise((resolve) => {
    const check = () => {
      if (problem() === null) {
        finish();
      }
    };
    const timer = setInterval(check, 200);
    const finish = () => {
      clearInterval(timer);
      resolve();
    };
    const again = async () => {
      clearInterval(timer);
      await calibrate();
      resolve();
    };
    const name = problem();
    const title = text(name === null ? "zoomChanged" : name);
    showScreen(
      element(
        "section",
        { class: "card", id: "screen-changed" },
        element("h1", {}, title),
        name === "zoomChanged" ? element("p", {}, text("zoomChangedText")) : null,
        element(
          "div",
          { class: "actions" },
          element("button", { id: "calibrate-again", onclick: again }, text("calibrateAgain")),
        ),
      ),
    );
    announce(title);
    find("calibrate-again").focus();
  });
}

