// Servers outside of the stack, whose addresses are in the environment: a start without them would
// end at its first step.
import { connect } from "node:net";
import type { ServiceName } from "../service.ts";
import type { Layout } from "../stack-layout.ts";

/** What steps and apps cannot begin without, and the port of an address that names none. */
const NEEDED: Readonly<Partial<Record<ServiceName, number>>> = {
  kafka: 9_092,
  postgres: 5_432,
  clickhouse: 8_123,
  redis: 6_379,
  registry: 8_081,
};
const ANSWER_MS = 3_000;

interface Door {
  readonly host: string;
  readonly port: number;
}

/** The places that an address names; none where its form is another one. */
const doorsOf = (address: string, port: number): readonly Door[] => {
  const hosts = /^(?:[\w+.-]+:\/\/)?(?:[^/@]*@)?([^/?]+)/.exec(address)?.[1] ?? "";
  const given = /^(\w+):\/\//.exec(address)?.[1];
  const usual = given === "http" ? 80 : given === "https" ? 443 : port;
  return hosts.split(",").flatMap((entry) => {
    const [, bracketed, plain, number] = /^(?:\[([0-9a-fA-F:]+)\]|([^:]+))(?::(\d+))?$/.exec(entry.trim()) ?? [];
    const host = bracketed ?? plain;
    return host === undefined ? [] : { host, port: number === undefined ? usual : Number(number) };
  });
};

const opens = ({ host, port }: Door): Promise<void> =>
  new Promise((resolve, reject) => {
    const socket = connect({ host, port, timeout: ANSWER_MS }, () => {
      socket.destroy();
      resolve();
    });
    socket.once("timeout", () => socket.destroy(new Error(`no answer within ${ANSWER_MS / 1_000} s`)));
    socket.once("error", reject);
  });

/** Asks each of them for a connection. One broker that answers names the others. */
export const outsideFaults = async ({ options, wanted, own, config }: Layout): Promise<readonly string[]> => {
  if ((options.steps ?? []).length === 0) return [];
  const asked = wanted.filter(({ name }) => NEEDED[name] !== undefined && !own.some((one) => one.name === name));
  const found = asked.map(async ({ name, outside }): Promise<readonly string[]> => {
    const doors = doorsOf(config.inherited[outside]!, NEEDED[name]!);
    if (doors.length === 0) return [];
    try {
      await Promise.any(doors.map(opens));
      return [];
    } catch (error) {
      const { errors } = error as AggregateError;
      const [first] = errors as NodeJS.ErrnoException[];
      const where = doors.map(({ host, port }) => `${host}:${port}`).join(", ");
      const why = first!.code ?? first!.message;
      return [`${outside} names ${where}, where nothing answers (${why}); start that server, or unset ${outside}.`];
    }
  });
  return (await Promise.all(found)).flat();
};
