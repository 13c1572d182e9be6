// The eye chart: one letter or ring at a time, of the size that is asked for.

import { Besides } from "./beside.js";
import { problemWith, Screen, waitForScreen } from "./calibration.js";
import { pick, stir } from "./chance.js";
import { announce, element, find, formatValues, showScreen } from "./dom.js";
import { clamp, logmarOf, STROKES, strokeOf } from "./geometry.js";
import { drawOptotype, LETTERS, makeIcon, makePicture, POSITIONS } from "./optotypes.js";
import { Answering } from "./session.js";
import { text } from "./strings.js";

const SETS = {
  sloan: Object.keys(LETTERS),
  landolt: POSITIONS,
  landolt4: POSITIONS.filter((_, index) => index % 2 === 0),
};
// The digits of a number pad, and arrows.
const RING_KEYS = {
  right: ["6", "ArrowRight"],
  upRight: ["9"],
  up: ["8", "ArrowUp"],
  upLeft: ["7"],
  left: ["4", "ArrowLeft"],
  downLeft: ["1"],
  down: ["2", "ArrowDown"],
  downRight: ["3"],
};
// The rows of the pad of rings, as on a number pad.
const RING_PAD = [
  ["upLeft", "up", "upRight"],
  ["left", null, "right"],
  ["downLeft", "down", "downRight"],
].flat();
const PRACTICE_SIZES = [1.0, 0.8, 0.6];
const TOLERANCE = 1e-6; // logMAR

export async function makeEyeTask(description, client) {
  return new EyeTask(description, client);
}

class EyeTask {
  constructor(description, client) {
    const { optotypes, size } = description.page;
    this.client = client;
    this.description = description;
    this.isRing = optotypes !== "sloan";
    this.size = size;
    this.names = SETS[optotypes];
    this.bounds = boundsOf(description.contexts.find((context) => context.name === size));
    this.instructions = [text(this.isRing ? "instructionsLandolt" : "instructionsEye")];
    this.practice = this.makePractice();
    this.answering = new Answering();
    this.screen = new Screen();
    this.settings = null; // the values that were set last
    this.redraw = () => {};
    window.addEventListener("resize", () => this.redraw());
  }

  makePractice() {
    const sizes = PRACTICE_SIZES.map((size) => clamp(size, this.bounds.low, this.bounds.high));
    return sizes.map((size, index) => ({
      id: index,
      right: "pass",
      context: { [this.size]: size },
      sides: [{}],
      seed: stir(1234567 * (index + 1)),
    }));
  }

  async prepare(isSimulated) {
    this.isSimulated = isSimulated;
    if (isSimulated) {
      this.screen.keep();
    } else {
      await this.calibrate();
    }
  }

  // Measure the screen; from now on no smaller sizes are asked for than it can show.
  async calibrate() {
    await this.screen.calibrate(this.bounds);
    await this.client.limit({ [this.size]: [this.screen.smallest, null] });
  }

  nameOf(trial) {
    return this.nameOfOptotype(pick(trial.seed, this.names));
  }

  nameOfOptotype(name) {
    return this.isRing ? text(name) : name;
  }

  async show(trial) {
    await this.setUp(trial);
    for (;;) {
      this.layOut(trial);
      const problem = this.problem();
      if (problem !== null) {
        await waitForScreen(() => this.calibrate(), () => this.problem());
        continue;
      }
      const given = await this.showLetter(trial);
      if (given !== null) {
        return given;
      }
    }
  }

  // What has to be set by hand: everything but the size, if it has changed.
  async setUp(trial) {
    const others = Object.entries(trial.context).filter(([name]) => name !== this.size);
    const values = { ...Object.fromEntries(others), ...trial.sides[0] };
    const description = formatValues(values);
    this.strip = description;
    if (description === "" || description === this.settings || this.isSimulated) {
      return;
    }
    const button = element("button", { class: "main", id: "ready" }, text("ready"));
    const rows = Object.entries(values).map(([name, value]) =>
      element("div", {}, element("dt", {}, name), element("dd", {}, formatValues({ "": value }).trim())),
    );
    showScreen(
      element(
        "section",
        { class: "card" },
        element("h1", {}, text("setUp")),
        element("dl", { class: "values" }, ...rows),
        element("div", { class: "actions" }, button),
      ),
    );
    announce(text("changeTo", { values: description }));
    await this.answering.wait([{ keys: [" ", "Enter"] }], [button]);
    this.settings = description;
  }

  layOut(trial) {
    const name = text(this.isRing ? "theRing" : "theLetter");
    this.stage = element("div", { class: "stage", id: "stage", role: "img", "aria-label": name });
    this.choices = this.names.map((name) => ({
      name,
      keys: this.isRing ? RING_KEYS[name] : [name.toLowerCase()],
    }));
    this.buttons = this.choices.map(({ name }) =>
      element(
        "button",
        { class: "key", "data-name": name, "aria-label": this.nameOfOptotype(name) },
        this.isRing ? makeIcon(name) : name,
      ),
    );
    const label = text(this.isRing ? "ringPad" : "letterPad");
    this.besides = this.makeBesides(trial);
    const pad = element(
      "div",
      {
        class: this.isRing ? "pad rings" : "pad letters",
        role: "group",
        "aria-label": label,
        "data-focus": true,
      },
      ...this.padCells(),
    );
    showScreen(
      this.strip ? element("p", { class: "context" }, this.strip) : null,
      this.stage,
      pad,
      this.besides.section,
    );
  }

  // There is nothing to tell while practicing.
  makeBesides(trial) {
    const names = trial.right === undefined ? this.description.infeasible : [];
    return new Besides(this.description, names);
  }

  padCells() {
    if (!this.isRing) {
      return this.buttons;
    }
    const byName = new Map(this.names.map((name, index) => [name, this.buttons[index]]));
    return RING_PAD.map((name) => byName.get(name) ?? element("span"));
  }

  get room() {
    return Math.min(this.stage.clientWidth, this.stage.clientHeight);
  }

  problem() {
    if (this.screen.hasChanged) {
      return "zoomChanged";
    }
    const room = this.stage.isConnected ? this.room : Infinity;
    return problemWith(this.bounds, this.screen.limits(room));
  }

  // Resolves to the answer, or to null if the letter cannot be shown any more.
  async showLetter(trial) {
    const optotype = pick(trial.seed, this.names);
    const asked = trial.context[this.size];
    const lost = new Promise((resolve) => {
      this.redraw = () => {
        if (this.problem() === null) {
          this.draw(optotype, asked);
        } else {
          resolve(null);
        }
      };
    });
    this.draw(optotype, asked);
    this.right = optotype;
    announce(text("pleaseAnswer"));
    const answered = this.besides.wait(this.answering, this.choices, this.buttons);
    const given = await Promise.race([answered, lost]);
    this.redraw = () => {};
    if (given === null) {
      this.answering.stop();
      return null;
    }
    return this.makeAnswer(optotype, asked, given);
  }

  draw(optotype, asked) {
    const { smallest, largest } = this.screen.limits(this.room);
    const stroke = strokeOf(clamp(asked, smallest, largest), this.screen);
    const { clientWidth: width, clientHeight: height } = this.stage;
    const picture = makePicture(width, height);
    const [left, top] = [width, height].map((room) => onPixels((room - STROKES * stroke) / 2));
    picture.append(drawOptotype(optotype, left, top, stroke));
    this.stage.replaceChildren(picture);
    this.stroke = stroke;
  }

  makeAnswer(optotype, asked, { choice, seconds, infeasible }) {
    const drawn = logmarOf(this.stroke, this.screen);
    const isOther = Math.abs(drawn - asked) > TOLERANCE;
    return {
      outcome: choice.outcome ?? (choice.name === optotype ? "pass" : "fail"),
      infeasible,
      seconds,
      // Rounding must not lead out of the bounds.
      shown: isOther
        ? { [this.size]: clamp(drawn, this.bounds.low, this.bounds.high) }
        : undefined,
      extra: {
        "page.optotype": optotype,
        "page.answer": choice.name,
        "page.pixels_per_mm": this.screen.pixelsPerMm,
        "page.distance_mm": this.screen.distance,
        "page.device_pixel_ratio": window.devicePixelRatio,
      },
    };
  }

  hide() {
    this.redraw = () => {};
    this.answering.stop();
    showScreen();
  }

  // Press the key of the letter, or of another one.
  simulate(outcome) {
    if (find("stage") === null) {
      return;
    }
    const position = this.names.indexOf(this.right);
    const shift = outcome === "pass" ? 0 : 1;
    const index = (position + shift) % this.names.length;
    this.buttons[index].classList.add("pressed");
    setTimeout(() => this.buttons[index].click(), 150);
  }
}

// Edges on device pixels are sharp; browsers put the picture itself on device pixels.
function onPixels(position) {
  return Math.round(position * window.devicePixelRatio) / window.devicePixelRatio;
}

function boundsOf(context) {
  const values = context.levels ?? [context.low, context.high];
  return { low: Math.min(...values), high: Math.max(...values) };
}
