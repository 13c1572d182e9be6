// Letters of Sloan's set and Landolt's rings, drawn on a grid of 5 x 5 strokes.
//
// Each is a list of shapes whose union it is. A shape is a list of outlines and fills by
// the even-odd rule. Curves are made of short lines: browsers draw the arcs of letters
// of a few pixels coarsely, so that their size would be wrong by up to 8 %.

const SVG = "http://www.w3.org/2000/svg";
const LINES = 96; // of a full circle
const TURN = 360;

// Points of a circle, by degrees clockwise from the right.
function arc(x, y, radius, from, to) {
  const number = Math.ceil((LINES * Math.abs(to - from)) / TURN);
  return Array.from({ length: number + 1 }, (_, index) => {
    const angle = ((from + ((to - from) * index) / number) * 2 * Math.PI) / TURN;
    return [x + radius * Math.cos(angle), y + radius * Math.sin(angle)];
  });
}

function box(left, top, right, bottom) {
  return [
    [left, top],
    [right, top],
    [right, bottom],
    [left, bottom],
  ];
}

// A ring with a gap of one stroke, whose sides are parallel, on the right.
function makeGap() {
  const [outer, inner] = [2.5, 1.5].map((radius) => (Math.asin(0.5 / radius) * TURN) / 2 / Math.PI);
  return [
    ...arc(2.5, 2.5, 2.5, outer, TURN - outer),
    ...arc(2.5, 2.5, 1.5, TURN - inner, inner),
  ];
}

const GAP_RIGHT = [[makeGap()]];
const STEM = box(0, 0, 1, 5);

export const LETTERS = {
  C: GAP_RIGHT,
  D: [
    [
      [[0, 0], ...arc(2.5, 2.5, 2.5, -90, 90), [0, 5]],
      [[1, 1], ...arc(2.5, 2.5, 1.5, -90, 90), [1, 4]],
    ],
  ],
  H: [[STEM], [box(4, 0, 5, 5)], [box(0.5, 2, 4.5, 3)]],
  K: [
    [STEM],
    [[[5, 0], [1, 3.6], [1, 2.255], [3.505, 0]]],
    [[[5, 5], [3.631, 5], [1.376, 2.589], [2.119, 1.92]]],
  ],
  N: [[STEM], [box(4, 0, 5, 5)], [[[0, 0], [1.25, 0], [5, 5], [3.75, 5]]]],
  O: [[arc(2.5, 2.5, 2.5, 0, TURN), arc(2.5, 2.5, 1.5, 0, TURN)]],
  R: [
    [
      [[0, 0], ...arc(3.5, 1.5, 1.5, -90, 90), [1, 3], [1, 5], [0, 5]],
      [[1, 1], ...arc(3.5, 1.5, 0.5, -90, 90), [1, 2]],
    ],
    [[[5, 5], [3.744, 5], [1.844, 2.5], [3.1, 2.5]]],
  ],
  S: [
    [
      [
        ...arc(3.5, 1.5, 1.5, 0, -90),
        ...arc(1.5, 1.5, 1.5, -90, -270),
        ...arc(3.5, 3.5, 0.5, -90, 90),
        ...arc(1.5, 3.5, 0.5, 90, 180),
        ...arc(1.5, 3.5, 1.5, 180, 90),
        ...arc(3.5, 3.5, 1.5, 90, -90),
        ...arc(1.5, 1.5, 0.5, 90, 270),
        ...arc(3.5, 1.5, 0.5, -90, 0),
      ],
    ],
  ],
  V: [[[[0, 0], [1.077, 0], [2.5, 3.557], [3.923, 0], [5, 0], [3, 5], [2, 5]]]],
  Z: [
    [box(0, 0, 5, 1)],
    [box(0, 4, 5, 5)],
    [[[5, 0.9], [5, 1], [1.529, 4], [1.529, 4.1], [0, 4.1], [0, 4], [3.471, 1], [3.471, 0.9]]],
  ],
};

// The positions of the gap, counterclockwise from the right.
export const POSITIONS = [
  "right",
  "upRight",
  "up",
  "upLeft",
  "left",
  "downLeft",
  "down",
  "downRight",
];

// The shapes of an optotype, and by how many degrees it is turned clockwise.
export function shapesOf(name) {
  const position = POSITIONS.indexOf(name);
  if (position >= 0) {
    return { shapes: GAP_RIGHT, turn: -45 * position };
  }
  return { shapes: LETTERS[name], turn: 0 };
}

// The optotype as a group of an SVG picture: its left upper corner and stroke.
export function drawOptotype(name, left, top, stroke) {
  const { shapes, turn } = shapesOf(name);
  const group = document.createElementNS(SVG, "g");
  group.setAttribute(
    "transform",
    `translate(${left} ${top}) scale(${stroke}) rotate(${turn} 2.5 2.5)`,
  );
  for (const shape of shapes) {
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("d", shape.map((outline) => `M${outline.join("L")}Z`).join(""));
    path.setAttribute("fill-rule", "evenodd");
    group.append(path);
  }
  return group;
}

export function makePicture(width, height) {
  const picture = document.createElementNS(SVG, "svg");
  picture.setAttribute("width", width);
  picture.setAttribute("height", height);
  picture.setAttribute("aria-hidden", "true");
  return picture;
}

// A picture of one optotype for a button.
export function makeIcon(name) {
  const icon = makePicture(24, 24);
  icon.append(drawOptotype(name, 2, 2, 4));
  return icon;
}
