// A check of `tributary doctor`, and its result.

export interface Check {
  readonly name: string;
  readonly ok: boolean;
  /** The finding, in one line. */
  readonly detail: string;
  /** How to fix it when it is not ok. */
  readonly cure?: string;
}

export type Finding = Omit<Check, "name">;
export type NamedCheck = readonly [name: string, look: () => Promise<Finding> | Finding];

export const good = (detail: string): Finding => ({ ok: true, detail });
export const bad = (detail: string, cure: string): Finding => ({ ok: false, detail, cure });
