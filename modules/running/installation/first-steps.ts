// Lists the steps that are missing before people can use an installation, and the remains of the
// demonstration.
import type pg from "pg";
import { demoUsers } from "../../../infra/embedded/demo-users.ts";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import { DEMO_LABEL } from "./seed.ts";

export interface FirstStep {
  readonly what: string;
  /** The command that fixes it. */
  readonly cure: string;
}

/**
 * Returns no step when an admin can sign in and every access of the demonstration is closed. An
 * open one is a risk: its addresses belong to no one, and its tokens are stored in a file. Writes
 * nothing.
 */
export const firstSteps = (pool: pg.Pool): Promise<readonly FirstStep[]> =>
  transaction(
    pool,
    null,
    async (tx) => {
      const demo = demoUsers.map(({ email }) => email);
      const { rows: users } = await tx.query<{ email: string; role: string }>(
        "select email, role from users where removed_at is null order by user_id",
      );
      const { rows: tokens } = await tx.query<{ token_id: number }>(
        sql`select token_id from tokens where label like ${`${DEMO_LABEL} %`} and revoked_at is null
          order by token_id`,
      );
      const isDemo = ({ email }: { readonly email: string }): boolean => demo.includes(email);
      const steps: FirstStep[] = [];
      if (!users.some((user) => user.role === "admin" && !isDemo(user)))
        steps.push({ what: "no admin can come in", cure: "tributary users create <email> --role admin" });
      for (const { email } of users.filter(isDemo))
        steps.push({ what: `${email} of the demonstration may come in`, cure: `tributary users disable ${email}` });
      for (const { token_id } of tokens)
        steps.push({
          what: `token ${token_id} of the demonstration is live`,
          cure: `tributary tokens revoke ${token_id}`,
        });
      return steps;
    },
    { role: "tributary_tokens", isReadOnly: true },
  );
