// The plain page: values to set on any equipment, and a button for each outcome.

import { announce, answerButton, element, formatNumber, formatValues, showScreen } from "./dom.js";
import { Answering } from "./session.js";
import { drawStimulus, loadStimulus } from "./stimulus.js";
import { outcomeText, text } from "./strings.js";

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
    // The best outcome first.
    this.choices = [...description.outcomes].reverse().map((outcome, index) => ({
      outcome,
      keys: [outcome[0].toLowerCase(), String(index + 1)],
    }));
    this.dropSharedInitials();
  }

  dropSharedInitials() {
    const initials = this.choices.map((choice) => choice.keys[0]);
    for (const choice of this.choices) {
      choice.keys = choice.keys.filter(
        (key) => initials.indexOf(key) === initials.lastIndexOf(key),
      );
    }
  }

  async prepare() {}

  async show(trial) {
    this.buttons = this.choices.map(({ outcome, keys }) =>
      answerButton(
        { "data-outcome": outcome },
        outcomeText(outcome),
        keys[0].toUpperCase(),
        keys[0].toUpperCase(),
      ),
    );
    const stages = trial.sides.map((side, index) =>
      this.makeSide(trial, side, index),
    );
    showScreen(
      element("h1", {}, text("setUp")),
      makeTable(trial.context),
      element("div", { class: "sides" }, ...stages),
      element("p", { class: "question" }, text("howDidItGo")),
      element("div", { class: "answers" }, ...this.buttons),
    );
    announce(`${text("setUp")}: ${formatValues(trial.values)}`);
    const { choice, seconds } = await this.answering.wait(this.choices, this.buttons);
    return { outcome: choice.outcome, seconds };
  }

  makeSide(trial, side, index) {
    const title = trial.sides.length === 1 ? "" : text(["first", "second"][index]);
    const stage = element("div", { class: "stage" });
    if (this.custom) {
      drawStimulus(stage, side, trial.context, this.custom);
    } else {
      stage.append(makeTable(side));
    }
    return element(
      "section",
      { class: "side" },
      title ? element("h2", {}, title) : null,
      stage,
    );
  }

  hide() {
    this.answering.stop();
    showScreen();
  }

  simulate(outcome) {
    this.buttons.find((button) => button.dataset.outcome === outcome).click();
  }
}

function makeTable(values) {
  const rows = Object.entries(values).map(([name, value]) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, formatNumber(value))),
  );
  return element("dl", { class: "values" }, ...rows);
}
