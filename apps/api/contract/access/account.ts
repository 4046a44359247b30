// The contracts of the caller's own account.
import { z } from "zod";
import { roles } from "../../../../modules/access/users/users.ts";
import { contract } from "../contract.ts";
import { choice, id, words } from "../fields.ts";

const me = z.object({
  id,
  email: z.string(),
  name: z.string(),
  role: choice(roles),
  partner_id: id.nullable(),
  client_ids: z.array(id).nullable().describe("null: every client"),
  permissions: z.array(z.string()).describe("the routes that the role may call"),
  locale: choice(["es", "en"]),
});

export const readMe = contract({ route: "GET /api/auth/me", summary: "Who the caller is.", answers: me });
export const changeMe = contract({
  route: "PATCH /api/auth/me",
  summary: "Changes the caller's name, and the language of its mails.",
  body: z.strictObject({ name: words(200).optional(), locale: choice(["es", "en"]).optional() }),
  answers: me,
});
