// All texts that people read. {name} is replaced by a value.

const TEXTS = {
  // Beginning and end
  choose: "Choose your experiment",
  welcome: "Welcome",
  start: "Start",
  startPractice: "Practice first",
  finished: "Finished",
  finishedText: "Thank you. Every answer is kept; you can close this page.",
  moreToCome: "There is more to come.",
  noExperiments: "There is no experiment.",
  notMedical: "For research. This is not a medical device.",
  instructionsEye:
    "You will see one letter at a time. Say which one it is: press its key, or touch " +
    "it below. If you cannot read it, guess: every answer counts.",
  instructionsLandolt:
    "You will see one ring at a time. Say where its gap is: press an arrow key or a " +
    "digit of the number pad, or touch the position below. If you cannot see it, " +
    "guess: every answer counts.",
  instructionsDuel:
    "You will compare two things at a time. Say which one you prefer: press the left " +
    "or the right arrow key, or touch one of the buttons.",
  instructionsTie: "If there is no difference, press the arrow down.",
  instructionsPlain:
    "Set the values that are shown, run the test, and say how it went.",
  keysHint: "Escape pauses. Backspace takes your last answer back.",

  // During the trials
  trial: "Trial {number}",
  trialOf: "Trial {number} of {total}",
  practiceTrial: "Practice {number} of {total}",
  practiceRight: "Right.",
  practiceWrong: "It was {answer}.",
  practiceOver: "That was the practice. Now it counts.",
  goOn: "Go on",
  pause: "Pause",
  paused: "Paused",
  pausedText: "Take your time. Nothing is shown until you go on.",
  undo: "I pressed the wrong key",
  undone: "Your last answer was taken back. Please answer again.",
  nothingToUndo: "There is no answer of yours to take back.",
  contrast: "High contrast",
  controls: "Controls",
  computing: "One moment …",
  answered: "Answered.",
  setUp: "Please set",
  ready: "Ready",
  changeTo: "Set {values}, then press the space bar.",
  pleaseAnswer: "Please answer.",

  // Connection
  offline: "No connection to the server. Your answer is kept; trying again …",
  newAddress:
    "The server was started again with a new address. Ask for it and open it: your " +
    "answer is kept.",
  refused: "The server refused: {message}",

  // Eye chart
  calibration: "How large is this screen?",
  cardText:
    "Hold a bank card (or any card of that size) to the screen, and move the slider " +
    "until the frame is as large as the card.",
  cardSlider: "Size of the frame",
  distance: "How far away are your eyes from the screen?",
  distanceLabel: "Distance in centimeters",
  smallest: "Smallest size at this distance: {logmar} logMAR ({decimal} decimal).",
  largest: "Largest size: {logmar} logMAR.",
  belowSmallest: "Smaller ones, which belong to this experiment, are not asked for.",
  tooNear: "The sizes of this experiment cannot be shown here: sit further away.",
  tooFar: "The sizes of this experiment cannot be shown here: sit nearer.",
  badDistance: "Please give a distance from 10 to 2000 centimeters.",
  keepZoom: "Do not change the zoom of the browser after this.",
  calibrationDone: "Done",
  zoomChanged: "The zoom has changed",
  zoomChangedText:
    "The size of the letters would be wrong. Set the zoom back to what it was, or " +
    "measure the screen again.",
  calibrateAgain: "Measure again",
  theLetter: "The letter to read",
  theRing: "The ring to look at",
  letterPad: "Which letter is it?",
  ringPad: "Where is the gap?",
  right: "right",
  upRight: "top right",
  up: "top",
  upLeft: "top left",
  left: "left",
  downLeft: "bottom left",
  down: "bottom",
  downRight: "bottom right",

  // Duels
  whichOne: "Which one do you prefer?",
  preferLeft: "Left",
  preferRight: "Right",
  noDifference: "No difference",
  leftSide: "Left side",
  rightSide: "Right side",
  playLeft: "Play left (Q)",
  playRight: "Play right (P)",
  playBoth: "Play both before you answer.",
  cannotLoad: "{name} cannot be loaded.",
  practiceThis: "Choose this one",
  practiceOther: "not this one",

  // Plain page
  howDidItGo: "How did it go?",
  whichIsBest: "Which one is best?",
  first: "First",
  second: "Second",
  third: "Third",
  fourth: "Fourth",
  fifth: "Fifth",
  sixth: "Sixth",
  seventh: "Seventh",
  eighth: "Eighth",
  pass: "Pass",
  fail: "Fail",
  tie: "No difference",

  // Beside an answer
  besides: "What was not as it should be",
  noAnswer: "I cannot answer",

  // Experimenter
  experimenter: "Experimenter",
  participantPage: "Page for participants",
  answers: "answers",
  answersOf: "{number} of {total} answers",
  pending: "being answered",
  withdrawn: "given up",
  running: "Running",
  stopped: "Stopped",
  ended: "Finished",
  stop: "Stop the experiment",
  resume: "Go on with it",
  export: "Export the trials (CSV)",
  expected: "What to expect of it",
  recommendedAfter: "Recommended after {number} answers",
  measuredAfter: "Measured after {number} answers",
  reportedAfter: "There is a report after {number} answers.",
  place: "at",
  noAnswers: "No answers yet: there is nothing to recommend.",
  parameter: "parameter",
  value: "value",
  interval: "90 % interval near it",
  success: "Success at {context}",
  atReference: "the reference",
  threshold: "Threshold of {name}",
  range: "{low} to {high}",
  outOfRange: "out of range",
  expectedLoss: "Expected loss against the best possible",
  latentUnits: "units of the latent function",
  goingOn: "Value of going on",
  goingOnText: "expected gain of the next answer, in units of the latent function",
  howSure: "How sure it is",
  notKnown: "Not known yet:",
  howSureText: "width of the widest 90 % interval of a threshold",
  limitLoss: "expected loss",
  limitThresholdWidth: "width of the threshold's interval",
  limitValue: "value of the next trial",
  limitAnswers: "answers",
  limitReached: "reached",
  pictureAlt: "Posterior, psychometric curve and contexts after {number} answers",
  noPicture: "There is nothing to draw yet.",
};

// What the sides of a trial are called.
export const SIDES = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth"];

export function text(key, values = {}) {
  if (!(key in TEXTS)) {
    throw new Error(`There is no text ${key}.`);
  }
  return TEXTS[key].replace(/\{(\w+)\}/g, (_, name) => String(values[name]));
}

// The name of an outcome, or the outcome itself if it has none.
export function outcomeText(outcome) {
  return outcome in TEXTS ? TEXTS[outcome] : outcome;
}
