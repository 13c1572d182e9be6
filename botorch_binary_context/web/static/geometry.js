// Sizes on the screen: 1 minute of arc is the stroke of a letter of 0 logMAR.

const MINUTE = Math.PI / 180 / 60;

// A letter is so many strokes high and wide.
export const STROKES = 5;
export const CARD = { width: 85.6, height: 53.98 }; // millimeters, ISO/IEC 7810 ID-1

// The stroke in CSS pixels; screen: {pixelsPerMm, distance} with millimeters.
export function strokeOf(logmar, screen) {
  const angle = MINUTE * 10 ** logmar;
  return screen.pixelsPerMm * screen.distance * Math.tan(angle);
}

export function logmarOf(stroke, screen) {
  const angle = Math.atan(stroke / (screen.pixelsPerMm * screen.distance));
  return Math.log10(angle / MINUTE);
}

// The smallest honest size has strokes of one device pixel, the largest fills a share
// of the room, in CSS pixels.
export function limitsOf(screen, room, pixelRatio, share = 0.9) {
  return {
    smallest: logmarOf(1 / pixelRatio, screen),
    largest: logmarOf((share * room) / STROKES, screen),
  };
}

export function clamp(value, low, high) {
  return Math.min(Math.max(value, low), high);
}
