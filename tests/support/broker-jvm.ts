// JVM settings for the brokers of tests. Each broker lives for a minute or two, so the CPU of its
// start matters most: without the optimising compiler and with classes from an archive, a broker
// needs 2.0 s of CPU until its first answer, instead of 5.4 s with the product's settings.
import { existsSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { StackConfig } from "../../infra/embedded/config.ts";
import { repositoryRoot } from "../../infra/embedded/home.ts";

/**
 * The archive lies beside the jars whose classes it holds, so another set of jars starts without
 * one.
 */
const archive = join(repositoryRoot(), ".tributary", "jars", "kafka.jsa");
const QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC";

/**
 * A value for JDK_JAVA_OPTIONS. A JVM ignores an archive that is missing or belongs to another JVM.
 */
export const quickStart = `${QUICK} -XX:SharedArchiveFile=${archive}`;

/** If there is no archive, the broker of this configuration writes it when it ends. */
export const archivingClasses = async (config: StackConfig, work: (config: StackConfig) => Promise<void>) => {
  if (existsSync(archive)) return work(config);
  const draft = `${archive}.${process.pid}.new`;
  try {
    const options = `${QUICK} -XX:ArchiveClassesAtExit=${draft}`;
    await work({ ...config, inherited: { ...config.inherited, JDK_JAVA_OPTIONS: options } });
    if (existsSync(draft)) renameSync(draft, archive);
  } finally {
    rmSync(draft, { force: true });
  }
};
