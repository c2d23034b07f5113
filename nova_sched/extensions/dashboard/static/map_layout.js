// Where each host is drawn: zones below each other, racks of a zone side by side, hosts of a rack in a block.
'use strict';

const SIZES = [22, 19, 16, 14, 12, 10, 9, 8, 7, 6, 5, 4];  // of a cell with its gap, in pixels
const ZONE_ROOM = 26, RACK_ROOM = 16, BLOCK_GAP = 14;

// The rows by zone and rack, each in the order of their names.
function gathered(board, rows) {
  const zones = new Map();
  for (const row of rows) {
    const racks = zones.get(board.zone[row]) || new Map();
    zones.set(board.zone[row], racks);
    const block = racks.get(board.rack[row]) || [];
    racks.set(board.rack[row], block);
    block.push(row);
  }
  const byName = (names) => (one, other) =>
    names[one[0]].localeCompare(names[other[0]], undefined, { numeric: true });
  return [...zones].sort(byName(board.zones))
    .map(([zone, racks]) => [board.zones[zone], [...racks].sort(byName(board.racks))
      .map(([rack, block]) => [board.racks[rack], block])]);
}

// A layout for this width: the largest cells with which all hosts fit into the height, or the smallest ones.
function laidOut(board, rows, width, height) {
  const zones = gathered(board, rows);
  for (const size of SIZES) {
    const made = placed(zones, size, width);
    if (made.height <= height || size === SIZES[SIZES.length - 1]) return made;
  }
  return null;
}

function placed(zones, size, width) {
  const cells = [], labels = [];
  let y = 0;
  for (const [zone, racks] of zones) {
    labels.push({ text: zone, x: 0, y: y + 16, isZone: true });
    y += ZONE_ROOM;
    let x = 0, tallest = 0;
    // All racks of a zone in one line, unless they would be towers.
    const share = Math.floor((width / racks.length - BLOCK_GAP) / size);
    for (const [rack, block] of racks) {
      const best = share >= 4 ? share : Math.ceil(Math.sqrt(block.length * 1.5));
      const columns = Math.max(1, Math.min(best, block.length, Math.floor(width / size)));
      const wide = columns * size, high = Math.ceil(block.length / columns) * size + RACK_ROOM;
      if (x && x + wide > width) {
        x = 0;
        y += tallest + BLOCK_GAP;
        tallest = 0;
      }
      // The name of the zone in that of the rack says nothing new.
      const text = rack.startsWith(`${zone}-`) ? rack.slice(zone.length + 1) : rack;
      labels.push({ text, x, y: y + 11, most: Math.max(wide, size * 3), isZone: false });
      block.forEach((row, number) => cells.push({
        row, x: x + (number % columns) * size, y: y + RACK_ROOM + Math.floor(number / columns) * size,
      }));
      x += wide + BLOCK_GAP;
      tallest = Math.max(tallest, high);
    }
    y += tallest + BLOCK_GAP;
  }
  return { size, cells, labels, height: y };
}
