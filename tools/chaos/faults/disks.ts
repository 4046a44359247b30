// A full disk under one folder. The proof is that the system reports ENOSPC, and that the process
// which writes there logs it.
import { empty, fill, type MountedFolder } from "../stage/mounts.ts";
import { between, type Fault, pause } from "./fault.ts";

/** The processes that write to each folder, whose logs must report the error. */
const writers: Readonly<Record<MountedFolder, readonly string[]>> = {
  kafka: ["kafka"],
  clickhouse: ["clickhouse", "worker-money"],
  objects: ["worker-money"],
  spool: ["ingest"],
};

const full = (name: MountedFolder): Fault => ({
  name: `full disk under ${name}`,
  id: "F-13",
  needs: "folders",
  run: async ({ target, random }) => {
    const said = writers[name].map((writer) => target.logSince(writer));
    const ms = between(random, 5_000, 12_000);
    try {
      const { mib, error } = fill(target.home, name);
      await pause(ms);
      const heard = said.some((since) => /ENOSPC|No space left|NOT_ENOUGH_SPACE|no space/i.test(since()));
      return {
        took: true,
        what:
          `${mib} MiB filled, then ${error}, for ${(ms / 1_000).toFixed(1)} s; ` +
          `${heard ? "its writer said so" : "nothing wrote there meanwhile"}`,
      };
    } finally {
      empty(target.home, name);
    }
  },
});

export const diskFaults: readonly Fault[] = [full("kafka"), full("clickhouse"), full("objects"), full("spool")];
