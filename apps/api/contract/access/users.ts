// The contracts of users, and of the users that an admin makes.
import { z } from "zod";
import { roles } from "../../../../modules/access/users/users.ts";
import { contract, listContract } from "../contract.ts";
import { choice, id, ofId, time, version, words } from "../fields.ts";

const locale = choice(["es", "en"]);
const status = choice(["active", "disabled"]);
/** An admin makes users of these roles; the others come by invitation. */
const given = choice(["admin", "client_manager", "viewer"]);
const email = z.string().trim().min(3).max(254);
const clientIds = z.array(id).max(10_000);
const allClients = z.boolean().describe("a viewer without clients sees none unless this is true");

const user = z.object({
  id,
  email: z.string(),
  name: z.string(),
  role: choice(roles),
  client_ids: z.array(id).describe("empty: every client of an admin or a partner, none of a manager or a viewer"),
  all_clients: z.boolean().describe("of a viewer: it sees all clients, also later ones"),
  partner_id: id.nullable(),
  status,
  locale,
  bound_at: time.nullable().describe("first login; null: none yet"),
  last_seen_at: time.nullable().describe("to the hour"),
  created_at: time,
  updated_at: time,
  version: z.int(),
});

export const listUsers = listContract({
  route: "GET /api/users",
  summary: "All users, disabled ones too.",
  filters: {
    role: choice(roles).optional(),
    status: status.optional(),
    q: z.string().min(1).max(200).optional().describe("begin of the name or the address"),
  },
  rows: user,
  sorts: ["email", "-email", "-created_at", "created_at"],
});

export const createUser = contract({
  route: "POST /api/users",
  summary: "Makes a user, who comes in with the first login that shows this address as verified.",
  body: z.strictObject({
    email,
    name: words(200),
    role: given,
    client_ids: clientIds.optional(),
    all_clients: allClients.optional(),
    locale: locale.optional(),
  }),
  answers: user,
  status: 201,
  isIdempotent: true,
  conflicts: ["email_in_use"],
});

export const changeUser = contract({
  route: "PATCH /api/users/:id",
  summary: "Changes what is given; it acts on the next request of that user. A new role begins without clients.",
  params: ofId,
  body: z.strictObject({
    name: words(200).optional(),
    role: given.optional(),
    client_ids: clientIds.optional(),
    all_clients: allClients.optional(),
    status: status.optional(),
    locale: locale.optional(),
    version,
  }),
  answers: user,
  conflicts: ["version_conflict", "last_admin"],
});

export const resetUser = contract({
  route: "DELETE /api/auth/reset-user",
  summary: "Forgets the identity of a user, for tests: the next login binds again. 404 where it is not switched on.",
  query: z.strictObject({ email }),
  conflicts: ["self_reset"],
});
