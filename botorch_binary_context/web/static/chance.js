// What is drawn at random for a trial, from its seed: the same after a reload.

const RANGE = 2 ** 32;

export function pick(seed, choices) {
  return choices[Math.floor((seed / RANGE) * choices.length)];
}

// A number that has nothing to do with pick's of the same seed.
export function stir(seed) {
  return Math.imul(seed ^ (seed >>> 16), 0x9e3779b1) >>> 0;
}
