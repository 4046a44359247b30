// Records how far a spool was drained. Two slots in a file of fixed size are written in turn and
// synced, so that one of them is always whole and a full disk does not matter.
import { type FileHandle, open } from "node:fs/promises";
import { crc32 } from "node:zlib";

export interface Place {
  readonly segment: number;
  readonly offset: number;
}
export interface Mark {
  readonly at: () => Place;
  /**
   * Resolves once the place is on the disk. If the disk refuses it, `at` still returns it: after a
   * crash the records in between are sent again.
   */
  readonly move: (to: Place) => Promise<void>;
  readonly close: () => Promise<void>;
}

const SLOT_BYTES = 32;

const slotOf = (turn: number, { segment, offset }: Place): Buffer => {
  const slot = Buffer.alloc(SLOT_BYTES);
  for (const [n, value] of [turn, segment, offset].entries()) slot.writeDoubleBE(value, n * 8);
  slot.writeUInt32BE(crc32(slot.subarray(0, 24)), 24);
  return slot;
};
const readSlot = (slot: Buffer): readonly [turn: number, place: Place] => {
  const isWhole = slot.length === SLOT_BYTES && crc32(slot.subarray(0, 24)) === slot.readUInt32BE(24);
  return isWhole
    ? [slot.readDoubleBE(0), { segment: slot.readDoubleBE(8), offset: slot.readDoubleBE(16) }]
    : [0, { segment: 0, offset: 0 }];
};

const newestOf = async (handle: FileHandle): Promise<readonly [turn: number, place: Place]> => {
  const bytes = await handle.readFile();
  const [turn, place] = [
    readSlot(bytes.subarray(0, SLOT_BYTES)),
    readSlot(bytes.subarray(SLOT_BYTES, 2 * SLOT_BYTES)),
  ].reduce((a, b) => (b[0] > a[0] ? b : a));
  if (bytes.length < 2 * SLOT_BYTES) {
    await handle.write(Buffer.concat([slotOf(turn, place), slotOf(turn, place)]), 0, 2 * SLOT_BYTES, 0);
    await handle.datasync();
  }
  return [turn, place];
};

/** A missing or damaged file means the beginning. */
export const openMark = async (path: string): Promise<Mark> => {
  const handle: FileHandle = await open(path, "r+").catch(() => open(path, "w+", 0o600));
  let [turn, place] = await newestOf(handle).catch(async (error) => {
    await handle.close().catch(() => undefined);
    throw error;
  });
  return {
    at: () => place,
    move: async (to) => {
      turn += 1;
      place = to;
      await handle.write(slotOf(turn, to), 0, SLOT_BYTES, (turn % 2) * SLOT_BYTES);
      await handle.datasync();
    },
    close: () => handle.close(),
  };
};
