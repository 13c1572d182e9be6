// The duel page: two sides in random places, and which one is preferred.

import { stir } from "./chance.js";
import { Besides } from "./beside.js";
import { announce, answerButton, element, formatValues, showScreen } from "./dom.js";
import { Answering } from "./session.js";
import { drawStimulus, loadStimulus } from "./stimulus.js";
import { outcomeText, text } from "./strings.js";

const SIDES = ["first", "second"];
const PRACTICE = [0, 1, 0].map((right, index) => ({
  id: index,
  practice: right,
  right: SIDES[right],
  context: {},
  sides: [{}, {}],
  seed: 0,
}));

export async function makeDuelTask(description) {
  return new DuelTask(description, await loadStimulus(description));
}

class DuelTask {
  constructor(description, custom) {
    this.custom = custom;
    this.description = description;
    this.ties = description.outcomes.filter(
      (outcome) => !SIDES.includes(outcome) && !description.infeasible.includes(outcome),
    );
    this.instructions = [text("instructionsDuel")];
    if (this.ties.length) {
      this.instructions.push(text("instructionsTie"));
    }
    this.practice = PRACTICE;
    this.answering = new Answering();
  }

  async prepare() {}

  nameOf(trial) {
    const places = orderOf(trial);
    return text(["preferLeft", "preferRight"][places.indexOf(SIDES.indexOf(trial.right))]);
  }

  async show(trial) {
    const places = orderOf(trial);
    const panels = places.map((side, place) => this.makePanel(trial, side, place));
    const choices = this.makeChoices(places);
    this.buttons = choices.map(({ outcome, label, key, keys }) =>
      answerButton({ "data-outcome": outcome }, label, keys[0], key),
    );
    this.besides = this.makeBesides(trial, places);
    this.requireSounds(panels.map((panel) => panel.sound));
    showScreen(
      trial.context && Object.keys(trial.context).length
        ? element("p", { class: "context" }, formatValues(trial.context))
        : null,
      element("div", { class: "sides pair" }, ...panels.map((panel) => panel.section)),
      element(
        "div",
        { class: "answers", role: "group", "aria-label": text("whichOne"), "data-focus": true },
        ...this.buttons,
      ),
      this.besides.section,
    );
    announce(text("pleaseAnswer"));
    const given = await this.besides.wait(this.answering, choices, this.buttons);
    const { choice, seconds, infeasible } = given;
    const left = SIDES[places[0]];
    return { outcome: choice.outcome, infeasible, seconds, extra: { "page.left": left } };
  }

  // Switches in the order of the places; there is nothing to tell while practicing.
  makeBesides(trial, places) {
    const { infeasible } = this.description;
    const isPractice = trial.practice !== undefined;
    const names = isPractice || !infeasible.length ? [] : places.map((side) => infeasible[side]);
    return new Besides(this.description, names, [text("preferLeft"), text("preferRight")]);
  }

  makeChoices(places) {
    const [left, right] = places.map((side) => SIDES[side]);
    const choices = [
      { outcome: left, label: text("preferLeft"), key: "←", keys: ["ArrowLeft", "1"] },
      { outcome: right, label: text("preferRight"), key: "→", keys: ["ArrowRight", "2"] },
    ];
    const between = this.ties.map((outcome) => ({
      outcome,
      label: outcome === "tie" ? text("noDifference") : outcomeText(outcome),
      key: "↓",
      keys: ["ArrowDown", "0"],
    }));
    choices.splice(1, 0, ...between);
    return choices;
  }

  makePanel(trial, side, place) {
    const stage = element("div", { class: "stage" });
    let sound = null;
    if (trial.practice === undefined) {
      sound = drawStimulus(stage, trial.sides[side], trial.context, this.custom);
    } else {
      const key = trial.practice === side ? "practiceThis" : "practiceOther";
      stage.append(element("p", { class: "text" }, text(key)));
    }
    const section = element(
      "section",
      { class: "side", "aria-label": text(["leftSide", "rightSide"][place]) },
      stage,
    );
    if (sound instanceof HTMLMediaElement) {
      section.append(makePlayer(sound, place));
    }
    return { section, sound };
  }

  // No answer before every sound was played.
  requireSounds(players) {
    const sounds = players.filter((player) => player instanceof HTMLMediaElement);
    this.sounds = sounds;
    const unheard = new Set(sounds);
    const update = () => this.buttons.forEach((button) => (button.disabled = unheard.size > 0));
    update();
    if (unheard.size) {
      announce(text("playBoth"));
    }
    for (const sound of sounds) {
      sound.addEventListener("ended", () => {
        unheard.delete(sound);
        update();
      });
      sound.addEventListener("play", () => {
        sounds.filter((other) => other !== sound).forEach((other) => other.pause());
      });
    }
  }

  hide() {
    this.answering.stop();
    this.sounds?.forEach((sound) => sound.pause());
    showScreen();
  }

  simulate(outcome) {
    const button = this.buttons.find(({ dataset }) => dataset.outcome === outcome);
    if (button) {
      button.click();
    } else {
      this.besides.simulate(outcome);
    }
  }
}

// Which side is on the left and which on the right.
function orderOf(trial) {
  return stir(trial.seed) < 2 ** 31 ? [0, 1] : [1, 0];
}

function makePlayer(sound, place) {
  const play = () => {
    sound.currentTime = 0;
    sound.play();
  };
  const label = text(["playLeft", "playRight"][place]);
  const button = element("button", { class: "play", onclick: play }, label);
  const key = ["q", "p"][place];
  const type = (event) => {
    if (!button.isConnected) {
      document.removeEventListener("keydown", type);
    } else if (event.key.toLowerCase() === key && !event.repeat) {
      play();
    }
  };
  document.addEventListener("keydown", type);
  return button;
}
