/**
 * A plugin for jsPsych 8: trials that an experiment of botorch_binary_context chooses.
 *
 * It talks to `binary-context serve`: each trial asks the server what to show, and
 * sends the answer before it ends. A plain ES module that imports nothing.
 */

/** The numbers of jsPsych's `ParameterType`, which a plain module cannot import. */
const TYPE = { BOOL: 0, STRING: 1, INT: 2, FLOAT: 3, FUNCTION: 4, OBJECT: 12, HTML: 8 };

const info = {
  name: "binary-context",
  version: "0.1.0",
  parameters: {
    /** The address of the participant that the server prints, with its token. */
    server: { type: TYPE.STRING, default: "../" },
    /** The name of the experiment; by default the only one there is. */
    experiment: { type: TYPE.STRING, default: null },
    /** Who answers; by default a name that this window keeps. */
    client: { type: TYPE.STRING, default: null },
    /** What to show: HTML made of the values of the trial, `(values, trial) => ...`. */
    stimulus: { type: TYPE.FUNCTION, default: null },
    /** Text below the stimulus. */
    prompt: { type: TYPE.HTML, default: null },
    /** The outcome that each key means, as {"y": "pass", "n": "fail"}. */
    keys: { type: TYPE.OBJECT, default: null },
    /** The labels of the buttons of the keys, as {"y": "I see it"}. */
    labels: { type: TYPE.OBJECT, default: {} },
    /** Says what a key means in this trial: `(key, values, trial) => outcome`. */
    judge: { type: TYPE.FUNCTION, default: null },
    /** Whether there are buttons for mouse and touch, one for each key. */
    buttons: { type: TYPE.BOOL, default: true },
    /** After how many milliseconds a trial without an answer is given up. */
    trial_duration: { type: TYPE.INT, default: null },
    /** How often a request is sent again, once a second, if the server is away. */
    retries: { type: TYPE.INT, default: 30 },
    /** In simulations, the key that is pressed: `(values, trial) => key`. */
    simulated_response: { type: TYPE.FUNCTION, default: null },
  },
  data: {
    /** The number of the trial in the journal; null if the experiment is over. */
    trial_id: { type: TYPE.INT },
    /** What was shown, by the names of the variables. */
    values: { type: TYPE.OBJECT },
    /** The key of the answer; null if there was none in time. */
    response: { type: TYPE.STRING },
    /** What the answer means, for example "pass". */
    outcome: { type: TYPE.STRING },
    /** The time until the answer in milliseconds. */
    rt: { type: TYPE.FLOAT },
    /** Why nothing more is to be shown, for example "answers"; else null. */
    finished: { type: TYPE.STRING },
  },
};

const SECOND = 1000;
const NO_TRIAL = { trial_id: null, values: null, response: null, outcome: null, rt: null };

/** A request that the server refused. */
class Refusal extends Error {
  constructor(status, answer) {
    super(answer?.error?.message ?? `The server answered with status ${status}.`);
    this.code = answer?.error?.code ?? null;
    this.answer = answer;
  }
}

/** One experiment on a server, for one client. */
class Experiment {
  /**
   * @param {object} trial The parameters of the plugin.
   */
  constructor(trial) {
    const server = trial.server.endsWith("/") ? trial.server : `${trial.server}/`;
    this.base = new URL("api/experiments", new URL(server, document.baseURI));
    this.name = trial.experiment;
    this.client = trial.client ?? ownName();
    this.retries = trial.retries;
  }

  /** What the experiment is. */
  async describe() {
    if (this.name === null) {
      const { experiments } = await this.send("GET", "");
      if (experiments.length !== 1) {
        throw new Error(`Expected "experiment" to be one of ${experiments.join(", ")}.`);
      }
      this.name = experiments[0];
    }
    return this.send("GET", `/${encodeURIComponent(this.name)}`);
  }

  /** The next trial, or why there is none. */
  ask() {
    return this.post("ask", {});
  }

  /** Send an answer. One that arrived before, unconfirmed, is not an error. */
  async tell(id, outcome, seconds) {
    const answer = { id, outcome, reaction_time: seconds };
    try {
      return await this.post("tell", answer);
    } catch (error) {
      if (error.code === "not-pending" && this.wasSentTwice) return error.answer;
      throw error;
    }
  }

  /** Give a trial up. */
  withdraw(id) {
    return this.post("withdraw", { id });
  }

  post(action, fields) {
    const path = `/${encodeURIComponent(this.name)}/${action}`;
    return this.send("POST", path, { client: this.client, ...fields });
  }

  async send(method, path, body) {
    this.wasSentTwice = false;
    for (let left = this.retries; ; left--) {
      try {
        return await this.request(method, path, body);
      } catch (error) {
        const isAway = !(error instanceof Refusal) || error.code === "journal";
        if (!isAway || left <= 0) throw error;
      }
      this.wasSentTwice = true;
      await new Promise((resolve) => setTimeout(resolve, SECOND));
    }
  }

  async request(method, path, body) {
    const options = { method, cache: "no-store" };
    if (body !== undefined) {
      options.headers = { "Content-Type": "application/json" };
      options.body = JSON.stringify(body);
    }
    const response = await fetch(`${this.base}${path}`, options);
    const answer = await response.json().catch(() => null);
    if (!response.ok) throw new Refusal(response.status, answer);
    return answer;
  }
}

/** A name that this window keeps, so that a reload shows the same trial again. */
function ownName() {
  const key = "binary-context-client";
  let name = sessionStorage.getItem(key);
  if (name === null) {
    name = `jspsych-${Math.random().toString(36).slice(2, 10)}`;
    sessionStorage.setItem(key, name);
  }
  return name;
}

/** The keys of duels are the sides, and else the first letters of the outcomes. */
function defaultKeys(described) {
  if (described.num_sides === 2) {
    const keys = { arrowleft: "first", arrowright: "second" };
    const others = described.outcomes.filter((o) => o !== "first" && o !== "second");
    return others.length ? { ...keys, arrowdown: others[0] } : keys;
  }
  return Object.fromEntries(described.outcomes.map((name) => [name[0], name]));
}

function escapeHtml(text) {
  const element = document.createElement("span");
  element.textContent = String(text);
  return element.innerHTML;
}

/** A table of the values, for hardware that is set by hand. */
function defaultStimulus(values) {
  const rows = Object.entries(values).map(
    ([name, value]) =>
      `<tr><th scope="row">${escapeHtml(name)}</th><td>${escapeHtml(value)}</td></tr>`,
  );
  return `<table class="binary-context-values">${rows.join("")}</table>`;
}

class BinaryContextPlugin {
  static info = info;

  constructor(jsPsych) {
    this.jsPsych = jsPsych;
  }

  /** Ask, show, wait for the answer, send it. */
  trial(display, trial, onLoad) {
    return this.run(display, trial, onLoad, () => {});
  }

  /** A trial; `afterLoad` is called with what was asked when it is shown. */
  async run(display, trial, onLoad, afterLoad) {
    const asked = await this.ask(trial);
    if (asked.next === null) return this.end(asked, onLoad);
    this.draw(display, trial, asked);
    const answer = this.waitForAnswer(display, trial, asked);
    onLoad();
    afterLoad(asked);
    return this.finish(trial, asked, await answer);
  }

  end({ finished }, onLoad) {
    onLoad();
    return { ...NO_TRIAL, finished };
  }

  async ask(trial) {
    const experiment = new Experiment(trial);
    const described = await experiment.describe();
    const { trial: next, finished } = await experiment.ask();
    return { experiment, keys: trial.keys ?? defaultKeys(described), next, finished };
  }

  draw(display, trial, { keys, next }) {
    const show = trial.stimulus ?? defaultStimulus;
    const buttons = Object.entries(keys).map(([key, outcome]) => {
      const label = escapeHtml(trial.labels[key] ?? outcome);
      const attributes = `type="button" class="jspsych-btn" data-key="${escapeHtml(key)}"`;
      return `<button ${attributes}>${label}</button>`;
    });
    display.innerHTML =
      `<div id="binary-context-stimulus">${show(next.values, next)}</div>` +
      (trial.prompt === null ? "" : `<div>${trial.prompt}</div>`) +
      (trial.buttons ? `<div id="binary-context-buttons">${buttons.join("")}</div>` : "");
  }

  /** The key or the button that is pressed first, and when; null if it is too late. */
  waitForAnswer(display, trial, { keys }) {
    const api = this.jsPsych.pluginAPI;
    const start = performance.now();
    return new Promise((resolve) => {
      const listener = api.getKeyboardResponse({
        callback_function: ({ key, rt }) => answer(key.toLowerCase(), rt),
        valid_responses: Object.keys(keys),
        rt_method: "performance",
        persist: false,
        allow_held_key: false,
      });
      const answer = (key, rt) => {
        api.cancelKeyboardResponse(listener);
        for (const button of display.querySelectorAll("button")) button.disabled = true;
        resolve({ key, rt });
      };
      for (const button of display.querySelectorAll("button[data-key]")) {
        button.addEventListener("click", () =>
          answer(button.dataset.key, performance.now() - start),
        );
      }
      if (trial.trial_duration !== null) {
        api.setTimeout(() => answer(null, null), trial.trial_duration);
      }
    });
  }

  /** Send the answer; the trial ends when the server has it. */
  async finish(trial, { experiment, keys, next }, { key, rt }) {
    const data = { ...NO_TRIAL, trial_id: next.id, values: next.values, finished: null };
    if (key === null) {
      await experiment.withdraw(next.id);
      return data;
    }
    const judge = trial.judge ?? ((pressed) => keys[pressed]);
    const outcome = judge(key, next.values, next);
    await experiment.tell(next.id, outcome, rt / SECOND);
    return { ...data, response: key, outcome, rt };
  }

  /** Answer by `simulated_response`, with or without showing the trial. */
  simulate(trial, mode, options, onLoad) {
    if (mode !== "visual") return this.simulateData(trial, options, onLoad);
    const display = this.jsPsych.getDisplayElement();
    return this.run(display, trial, onLoad, (asked) => {
      const { response, rt } = this.simulatedAnswer(trial, options, asked);
      if (response !== null) this.jsPsych.pluginAPI.pressKey(response, rt);
    });
  }

  async simulateData(trial, options, onLoad) {
    const asked = await this.ask(trial);
    if (asked.next === null) return this.end(asked, onLoad);
    onLoad();
    const { response, rt } = this.simulatedAnswer(trial, options, asked);
    return this.finish(trial, asked, { key: response, rt });
  }

  simulatedAnswer(trial, options, { keys, next }) {
    const api = this.jsPsych.pluginAPI;
    const press = trial.simulated_response ?? (() => api.getValidKey(Object.keys(keys)));
    const data = api.mergeSimulationData(
      {
        response: press(next.values, next),
        rt: this.jsPsych.randomization.sampleExGaussian(500, 50, 1 / 150, true),
      },
      options,
    );
    api.ensureSimulationDataConsistency(trial, data);
    return data;
  }
}

export default BinaryContextPlugin;
export { TYPE };
