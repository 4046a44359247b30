// Starts every automatic signal (docs/pixel/signals.md). A kind that fails does not stop the
// others.
import { quietly } from "../guard.ts";
import type { Tracker } from "../tracker.ts";
import { startDevice } from "./device.ts";
import { startFailures } from "./failures.ts";
import { startMedia } from "./media.ts";
import { startPage } from "./page.ts";
import { startPointer } from "./pointer.ts";
import { startSpeed } from "./speed.ts";

export const startSignals = (tracker: Tracker): void => {
  for (const startOne of [startPage, startPointer, startFailures, startMedia, startDevice, startSpeed])
    quietly(() => startOne(tracker));
};
