// One admin connection for questions that come again and again, opened by the first of them.
import { within } from "../runtime/timing/time-limit.ts";
import type { Admin } from "./admin.ts";

export interface LastingAdmin {
  /** Rejects with what the broker says, or when it does not answer in time. */
  readonly ask: <T>(question: (admin: Admin) => Promise<T>) => Promise<T>;
  /** Later questions are rejected. */
  readonly close: () => Promise<void>;
}

/** A broker that stands still answers neither a question nor a goodbye. */
const LEAVE_MS = 1_000;

/** After a failure the connection is closed, and the next question opens another. */
export const lastingAdmin = (kafka: { readonly admin: () => Promise<Admin> }, withinMs: number): LastingAdmin => {
  let opened: Promise<Admin> | undefined;
  let isClosed = false;
  const leave = async (connection: Promise<Admin> | undefined): Promise<void> => {
    if (opened === connection) opened = undefined;
    const left = connection?.then((admin) => admin.close());
    await within(LEAVE_MS, Promise.resolve(left), "not left").catch(() => undefined);
  };
  return {
    ask: async (question) => {
      if (isClosed) throw new Error("the connection to the log is closed");
      opened ??= kafka.admin();
      const connection = opened;
      try {
        return await within(withinMs, connection.then(question), `the log did not answer within ${withinMs / 1_000} s`);
      } catch (error) {
        await leave(connection);
        throw error;
      }
    },
    close: () => {
      isClosed = true;
      return leave(opened);
    },
  };
};
