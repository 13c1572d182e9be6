// What was not feasible beside an answer: a switch for each side, and no answer at all.

import { element } from "./dom.js";
import { text } from "./strings.js";

export class Besides {
  // names: such outcomes, none or one for each side; places: what several sides are called.
  constructor(description, names, places = []) {
    this.names = names;
    this.word = description.feedback.infeasible;
    this.switches = names.map((name, index) =>
      element(
        "button",
        {
          class: "switch",
          "data-name": name,
          "aria-label": names.length === 1 ? this.word : `${this.word}: ${places[index]}`,
          "aria-pressed": "false",
        },
        names.length === 1 ? this.word : places[index],
      ),
    );
    this.none = element("button", { class: "switch", id: "no-answer", disabled: true }, text("noAnswer"));
    for (const button of this.switches) {
      button.addEventListener("click", () => this.toggle(button));
    }
  }

  // The part of a page; null where nothing can be told beside an answer.
  get section() {
    if (this.names.length === 0) {
      return null;
    }
    const about = { class: "besides", role: "group", "aria-label": text("besides") };
    const title = this.names.length === 1 ? null : element("span", {}, `${this.word}:`);
    return element("div", about, title, ...this.switches, this.none);
  }

  toggle(button) {
    const isPressed = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(isPressed));
    this.none.disabled = this.told.length === 0;
  }

  get told() {
    const pressed = this.switches.filter((button) => button.getAttribute("aria-pressed") === "true");
    return pressed.map((button) => button.dataset.name);
  }

  // Wait for an answer, or for none. Resolves to {choice, seconds} and what was told.
  async wait(answering, choices, buttons) {
    const all = [...choices, { outcome: null, keys: [] }];
    const given = await answering.wait(all, [...buttons, this.none]);
    const told = this.told;
    if (given.choice.outcome === null) {
      const [outcome, ...others] = told;
      return { ...given, choice: { outcome }, infeasible: listed(others) };
    }
    return { ...given, infeasible: listed(told) };
  }

  // Press what gives an outcome that is no answer.
  simulate(outcome) {
    this.toggle(this.switches[this.names.indexOf(outcome)]);
    this.none.click();
  }
}

function listed(names) {
  return names.length ? names : undefined;
}
