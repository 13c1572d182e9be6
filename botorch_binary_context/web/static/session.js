// A session: instructions, practice, trial after trial, pauses, the end.
//
// A task shows trials. It has
//   instructions  a list of texts
//   prepare()     makes the screen ready, for example by a calibration
//   practice      a list of trials that are not sent; each has a field `right`
//   show(trial)   resolves to {outcome, infeasible, shown, extra, seconds}: the answer,
//                 what was not feasible beside it, and its time
//   hide()        gives the trial up
//   simulate(outcome)  answers as a simulated person does, by the task's own keys

import { Refused } from "./client.js";
import { announce, element, find, painted, showScreen, sleep } from "./dom.js";
import { text } from "./strings.js";

const SIMULATED_DELAY = 350; // milliseconds
const LOOK_AGAIN = 2000; // milliseconds, after the end

export class Session {
  constructor(client, description, task) {
    this.client = client;
    this.description = description;
    this.task = task;
    this.isSimulated = description.simulated;
    this.interrupt = null; // set while a trial is shown
  }

  async run() {
    await this.client.sendKept();
    const { client } = await this.updateStatus();
    if (client.finished === null) {
      const goesOn = client.pending.length > 0 || client.answered > 0;
      await this.begin(goesOn);
    } else {
      await this.end(client.finished);
      await this.begin(true);
    }
    for (;;) {
      await this.end(await this.goThroughTrials());
    }
  }

  async updateStatus() {
    const status = await this.client.status();
    this.limit = status.limit;
    this.number = status.client.answered + 1;
    return status;
  }

  async begin(goesOn) {
    const wantsPractice = await this.welcome(goesOn);
    await this.task.prepare(this.isSimulated);
    this.makeControls();
    find("progress").textContent = text("computing");
    await this.client.ask(); // it is ready, and what follows, after the practice
    if (wantsPractice) {
      await this.practise();
    }
  }

  // Resolves to whether to practise.
  welcome(goesOn) {
    const paragraphs = [...this.task.instructions, text("keysHint")];
    if (this.description.instructions) {
      paragraphs.unshift(String(this.description.instructions));
    }
    return new Promise((resolve) => {
      const buttons = [
        element(
          "button",
          { class: "main", id: "start", onclick: () => resolve(false) },
          text(goesOn ? "goOn" : "start"),
        ),
      ];
      if (this.task.practice.length) {
        const practise = { id: "practise", onclick: () => resolve(true) };
        buttons.push(element("button", practise, text("startPractice")));
      }
      showScreen(
        element(
          "section",
          { class: "card" },
          element("h1", {}, text("welcome")),
          ...paragraphs.map((paragraph) => element("p", {}, paragraph)),
          element("div", { class: "actions" }, ...buttons),
          element("p", { class: "small" }, text("notMedical")),
        ),
      );
      if (this.isSimulated) {
        sleep(SIMULATED_DELAY).then(() => resolve(false));
      }
    });
  }

  makeControls() {
    const controls = find("controls");
    const progress = element("span", { id: "progress" });
    const pause = { id: "pause", onclick: () => this.stopTrial("pause") };
    const undo = { id: "undo", onclick: () => this.stopTrial("undo") };
    const contrast = { id: "contrast", "aria-pressed": "false", onclick: toggleContrast };
    controls.setAttribute("aria-label", text("controls"));
    controls.replaceChildren(
      progress,
      element("button", pause, text("pause")),
      element("button", undo, text("undo")),
      element("button", contrast, text("contrast")),
    );
    controls.hidden = false;
    document.addEventListener("keydown", (event) => {
      const action = { Escape: "pause", Backspace: "undo" }[event.key];
      if (action && !event.repeat && !event.ctrlKey && !event.metaKey) {
        event.preventDefault();
        this.stopTrial(action);
      }
    });
  }

  stopTrial(action) {
    this.interrupt?.(action);
  }

  async practise() {
    const { practice } = this.task;
    find("undo").disabled = true;
    for (const [index, trial] of practice.entries()) {
      const progress = { number: index + 1, total: practice.length };
      find("progress").textContent = text("practiceTrial", progress);
      const answer = await this.showUntilAnswered(trial);
      if (answer.action) {
        continue;
      }
      const isRight = answer.outcome === trial.right;
      const word = this.task.nameOf(trial);
      announce(isRight ? text("practiceRight") : text("practiceWrong", { answer: word }));
      find("progress").textContent = find("live").textContent;
      await sleep(700);
    }
    find("undo").disabled = false;
    await waitForButton(text("practiceOver"), text("goOn"));
  }

  // Resolves to the reason why there are no more.
  async goThroughTrials() {
    for (;;) {
      find("progress").textContent = text("computing");
      const { trial, finished } = await this.client.ask();
      if (finished) {
        return finished;
      }
      this.showProgress();
      const answer = await this.showUntilAnswered(trial);
      if (answer.action === "undo") {
        await this.undo();
      } else {
        await this.send(trial, answer);
      }
    }
  }

  showProgress() {
    const { number, limit: total } = this;
    // More than that are asked if some had no answer.
    const isOpen = total === null || number > total;
    find("progress").textContent = isOpen
      ? text("trial", { number })
      : text("trialOf", { number, total });
  }

  // Show a trial, again after each pause, until there is an answer or another action.
  async showUntilAnswered(trial) {
    for (;;) {
      const given = await this.showOnce(trial);
      if (given.action !== "pause") {
        return given;
      }
      await waitForButton(text("pausedText"), text("goOn"), text("paused"));
    }
  }

  async showOnce(trial) {
    const interrupted = new Promise((resolve) => {
      this.interrupt = (action) => resolve({ action });
    });
    if (trial.simulated) {
      this.simulate(trial);
    }
    const given = await Promise.race([this.task.show(trial), interrupted]);
    this.interrupt = null;
    this.task.hide();
    return given;
  }

  async simulate(trial) {
    await sleep(SIMULATED_DELAY);
    if (this.interrupt) {
      this.task.simulate(trial.simulated);
    }
  }

  async send(trial, answer) {
    announce(text("answered"));
    await this.client.tell({
      id: trial.id,
      outcome: answer.outcome,
      infeasible: answer.infeasible,
      shown: answer.shown,
      reaction_time: Math.max(answer.seconds, 0),
      extra: answer.extra,
    });
    this.number += 1;
  }

  async undo() {
    let message = text("undone");
    try {
      await this.client.undo();
      this.number -= 1;
    } catch (error) {
      if (!(error instanceof Refused)) {
        throw error;
      }
      message = text("nothingToUndo");
    }
    announce(message);
    await notify(message);
  }

  // Resolves when the experiment goes on, or the last answer was taken back.
  async end(reason) {
    const controls = find("controls");
    controls.hidden = true;
    const button = element("button", { id: "undo-last" }, text("undo"));
    const canUndo = this.number > 1 && reason !== "stopped";
    showScreen(
      element(
        "section",
        { class: "card", id: "end" },
        element("h1", {}, text("finished")),
        element("p", {}, text("finishedText")),
        canUndo ? element("div", { class: "actions" }, button) : null,
      ),
    );
    const isUndone = await this.waitForMore(button);
    if (isUndone) {
      await this.undo();
    } else {
      await waitForButton(text("moreToCome"), text("goOn"));
    }
    await this.updateStatus();
    controls.hidden = controls.childElementCount === 0;
  }

  // Resolves to whether the last answer is to be taken back.
  async waitForMore(button) {
    let isUndone = false;
    const pressed = new Promise((resolve) => {
      button.addEventListener("click", () => {
        isUndone = true;
        resolve();
      });
    });
    while (!isUndone && !(await this.client.goesOn())) {
      await Promise.race([sleep(LOOK_AGAIN), pressed]);
    }
    return isUndone;
  }
}

// A message that goes away by itself, on top of what is shown.
async function notify(message) {
  const note = element("div", { class: "note" }, message);
  document.body.append(note);
  setTimeout(() => note.remove(), 2500);
}

function waitForButton(message, label, heading = message) {
  return new Promise((resolve) => {
    const button = { class: "main", id: "go-on", onclick: resolve };
    showScreen(
      element(
        "section",
        { class: "card" },
        element("h1", {}, heading),
        heading === message ? null : element("p", {}, message),
        element("div", { class: "actions" }, element("button", button, label)),
      ),
    );
    find("go-on").focus();
  });
}

function toggleContrast(event) {
  const isHigh = document.documentElement.dataset.contrast !== "high";
  document.documentElement.dataset.contrast = isHigh ? "high" : "normal";
  event.currentTarget.setAttribute("aria-pressed", String(isHigh));
}

// What a trial is answered by: buttons and keys. It resolves to the choice and the time
// since what is on the page now was painted; that is negative if it was not.
export class Answering {
  constructor() {
    this.stop = () => {};
  }

  // choices: a list of {outcome, keys, ...} ; buttons: one for each choice.
  async wait(choices, buttons) {
    this.stop();
    const controller = new AbortController();
    this.stop = () => controller.abort();
    const { signal } = controller;
    const answered = new Promise((resolve) => {
      const answer = (choice, event) => {
        controller.abort();
        resolve({ choice, at: event.timeStamp });
      };
      buttons.forEach((button, index) => {
        const press = (event) => answer(choices[index], event);
        button.addEventListener("click", press, { signal });
      });
      const type = (event) => {
        const hasModifier = event.ctrlKey || event.metaKey || event.altKey;
        const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
        const index = choices.findIndex((choice) => choice.keys.includes(key));
        if (index >= 0 && !event.repeat && !hasModifier && !buttons[index].disabled) {
          event.preventDefault();
          answer(choices[index], event);
        }
      };
      document.addEventListener("keydown", type, { signal });
    });
    let begin = Infinity; // an answer to what was not seen takes no time
    painted().then(() => (begin = performance.now()));
    const { choice, at } = await answered;
    return { choice, seconds: (at - begin) / 1000 };
  }
}
