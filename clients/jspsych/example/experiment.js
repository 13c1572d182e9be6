/**
 * Letters of a size that the experiment chooses, until it has enough answers.
 *
 * `index.html?simulate=visual` or `?simulate=data-only` answers by itself.
 */
import BinaryContextPlugin from "./plugin-binary-context.js";

const LETTERS = [..."CDHKNORSVZ"];
const letterOf = (trial) => LETTERS[trial.seed % LETTERS.length];

const jsPsych = jsPsychModule.initJsPsych();
const letter = {
  type: BinaryContextPlugin,
  stimulus: ({ size }, trial) =>
    `<p style="font-size: ${5 * 2 ** size}px">${letterOf(trial)}</p>`,
  keys: Object.fromEntries(LETTERS.map((name) => [name.toLowerCase(), name])),
  judge: (key, values, trial) =>
    key === letterOf(trial).toLowerCase() ? "pass" : "fail",
  // Someone who reads letters from a size of 2 on.
  simulated_response: ({ size }, trial) =>
    size > 2 ? letterOf(trial).toLowerCase() : "z",
};
const timeline = [
  {
    timeline: [letter],
    loop_function: (data) => data.values().at(-1).finished === null,
  },
];

const mode = new URLSearchParams(location.search).get("simulate");
window.data = jsPsych.data;
await (mode === null ? jsPsych.run(timeline) : jsPsych.simulate(timeline, mode));
document.body.dataset.done = "yes";
