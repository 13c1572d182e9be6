// The plain page: values to set on any equipment, and a button for each answer.

import { Besides } from "./beside.js";
import { announce, answerButton, element, formatNumber, formatValues, showScreen } from "./dom.js";
import { Answering } from "./session.js";
import { drawStimulus, loadStimulus } from "./stimulus.js";
import { outcomeText, SIDES, text } from "./strings.js";

export async function makePlainTask(description) {
  return new PlainTask(description, await loadStimulus(description));
}

class PlainTask {
  constructor(description, custom) {
    this.description = description;
    this.custom = custom;
    this.instructions = [text("instructionsPlain")];
    this.practice = [];
    this.answering = new Answering();
    this.choices = makeChoices(description);
  }

  async prepare() {}

  async show(trial) {
    this.buttons = this.choices.map(({ outcome, keys }) =>
      answerButton({ "data-outcome": outcome }, outcomeText(outcome), keys[0]),
    );
    const places = trial.sides.map((_, index) => outcomeText(SIDES[index]));
    this.besides = new Besides(this.description, this.description.infeasible, places);
    const stages = trial.sides.map((side, index) =>
      this.makeSide(trial, side, trial.sides.length === 1 ? null : places[index]),
    );
    showScreen(
      element("h1", {}, text("setUp")),
      Object.keys(trial.context).length ? makeTable(trial.context) : null,
      element("div", { class: this.custom ? "sides" : "sides tables" }, ...stages),
      element("p", { class: "question" }, text(this.isContest ? "whichIsBest" : "howDidItGo")),
      element("div", { class: "answers" }, ...this.buttons),
      this.besides.section,
    );
    announce(`${text("setUp")}: ${formatValues(trial.values)}`);
    const given = await this.besides.wait(this.answering, this.choices, this.buttons);
    const { choice, seconds, infeasible } = given;
    return { outcome: choice.outcome, seconds, infeasible };
  }

  get isContest() {
    return this.choices.every(({ outcome }) => SIDES.includes(outcome));
  }

  makeSide(trial, side, title) {
    const stage = element("div", { class: "stage" });
    if (this.custom) {
      drawStimulus(stage, side, trial.context, this.custom);
    } else {
      stage.append(makeTable(side));
    }
    return element(
      "section",
      { class: "side" },
      title === null ? null : element("h2", {}, title),
      stage,
    );
  }

  hide() {
    this.answering.stop();
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

// The answers and their keys: sides in their order, otherwise the best first.
function makeChoices({ outcomes, infeasible }) {
  const answers = outcomes.filter((outcome) => !infeasible.includes(outcome)).reverse();
  if (answers.every((outcome) => SIDES.includes(outcome))) {
    answers.sort((one, other) => SIDES.indexOf(one) - SIDES.indexOf(other));
  }
  const initials = answers.map((outcome) => outcome[0].toLowerCase());
  return answers.map((outcome, index) => ({ outcome, keys: keysOf(outcome, index, initials) }));
}

// The initial, if no other answer has it, and the number; of a rating its last digit.
function keysOf(outcome, index, initials) {
  if (/^\d+$/.test(outcome)) {
    return Number(outcome) <= 10 ? [outcome.at(-1)] : [];
  }
  const number = index < 9 ? [String(index + 1)] : [];
  const isAlone = initials.filter((initial) => initial === initials[index]).length === 1;
  return isAlone ? [initials[index], ...number] : number;
}

function makeTable(values) {
  const rows = Object.entries(values).map(([name, value]) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, formatNumber(value))),
  );
  return element("dl", { class: "values" }, ...rows);
}
