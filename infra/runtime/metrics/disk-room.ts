// How much room the disks of an app's folders have, as its metrics show it.
import type { StatsFs } from "node:fs";
import { statfs } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import type { Metrics } from "../metric-counts.ts";
import type { Resource } from "../scope.ts";

const EVERY_MS = 30_000;

/** The folders by a name that shows in metrics. Null: a bucket, whose room is not ours to know. */
export type Places = Readonly<Record<string, string | null>>;

/** The folder of an object store; null for a bucket. */
export const folderOf = (url: string): string | null => (url.startsWith("file:") ? fileURLToPath(url) : null);

/** Where an edge keeps its spool, as modules/intake/path/edge.ts reads the setting. */
export const homeFolderOf = ({ TRIBUTARY_HOME: home }: { readonly TRIBUTARY_HOME?: string | undefined }): string =>
  resolve(home ?? ".tributary", "spool");

/** A folder that is not made yet will lie where the nearest of its parents does. */
const roomOf = async (folder: string): Promise<StatsFs | null> => {
  try {
    return await statfs(folder);
  } catch (error) {
    const isMissing = (error as NodeJS.ErrnoException).code === "ENOENT";
    return isMissing && dirname(folder) !== folder ? roomOf(dirname(folder)) : null;
  }
};

/** Shows the room once a round. A folder that cannot be asked has none that is known. */
export const watchDisks = async (
  places: Places,
  metrics: Pick<Metrics, "setDisk" | "setKnown">,
  everyMs = EVERY_MS,
): Promise<Resource<null>> => {
  const look = async (): Promise<void> => {
    const rooms = await Promise.all(
      Object.entries(places).map(async ([place, folder]) => {
        if (folder === null) return true;
        const room = await roomOf(folder);
        metrics.setDisk(
          place,
          room === null ? null : { free: room.bavail * room.bsize, size: room.blocks * room.bsize },
        );
        return room !== null;
      }),
    );
    metrics.setKnown("disk", !rooms.includes(false));
  };
  await look();
  const timer = setInterval(() => void look(), everyMs);
  return { value: null, stop: () => clearInterval(timer) };
};
