// The rules for a user, whether it is created or changed.
import { invalid } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { partnerStanding } from "../standing.ts";
import { addressOf, type Locale, locales, type Role, roles } from "./users.ts";

export interface NewUser {
  readonly email: string;
  readonly name: string;
  readonly role: Role;
  readonly partner_id?: number | null;
  readonly client_ids?: readonly number[];
  readonly all_clients?: boolean;
  readonly locale?: Locale;
}
/**
 * Looks up existing clients and partners, e.g. in a snapshot of the reference data; undefined: it
 * does not exist.
 */
export interface KnownTenants {
  readonly client: (clientId: number) => unknown;
  readonly partner: (partnerId: number) => unknown;
}

export const EMAIL = /^[^\s@\p{C}]{1,64}@[^\s@\p{C}]{1,189}$/u;
const LONGEST_NAME = 200;
const NAME = /^[^\p{C}]*$/u;

/**
 * The tenants that the caller may assign: its own clients, and a partner of one of them. A partner
 * that the user keeps is not checked.
 */
export const tenantsFor = async (
  { tx, scope }: Pick<Work, "tx" | "scope">,
  partnerId: number | null | undefined,
): Promise<KnownTenants> => {
  const clients = new Set(scope.clients);
  const partner = partnerId == null ? true : await partnerStanding(tx, partnerId, scope.clients);
  return { client: (id) => clients.has(id) || undefined, partner: () => partner };
};

type Field = "email" | "name" | "role" | "partner_id" | "client_ids" | "all_clients" | "locale";

const refuse = (field: Field, message: string): never => {
  throw invalid(`/${field}`, "bad_user", message);
};

/** Returns the user in the form in which it is saved. Throws RefusalError: invalid `bad_user`. */
export const checkUser = <Given extends Required<NewUser>>(user: Given, known: KnownTenants | null): Given => {
  const email = addressOf(user.email);
  const name = user.name.trim();
  if (!EMAIL.test(email)) refuse("email", "must be an e-mail address of at most 254 characters");
  if (name === "" || name.length > LONGEST_NAME || !NAME.test(name))
    refuse("name", `must have 1 to ${LONGEST_NAME} printable characters`);
  if (!roles.includes(user.role)) refuse("role", `${user.role} is none of ${roles.join(", ")}`);
  if (!locales.includes(user.locale)) refuse("locale", `${user.locale} is none of ${locales.join(", ")}`);
  if ((user.role === "partner") !== (user.partner_id !== null))
    refuse("partner_id", user.role === "partner" ? "a partner user belongs to a partner" : `a ${user.role} has none`);
  if (user.partner_id !== null && known !== null && known.partner(user.partner_id) === undefined)
    refuse("partner_id", `there is no partner ${user.partner_id}`);
  checkClients(user, known);
  return { ...user, email, name, client_ids: [...new Set(user.client_ids)] };
};

const checkClients = ({ role, client_ids: ids, all_clients }: Required<NewUser>, known: KnownTenants | null): void => {
  const missing = known === null ? undefined : ids.find((id) => known.client(id) === undefined);
  if (missing !== undefined) refuse("client_ids", `there is no client ${missing}`);
  if (role === "admin" && ids.length > 0) refuse("client_ids", "an admin has all clients");
  if (all_clients && (role !== "viewer" || ids.length > 0))
    refuse("all_clients", role === "viewer" ? "leave it out beside client_ids" : "is said of viewers alone");
  if (role === "client_user" && ids.length !== 1) refuse("client_ids", "a client user belongs to one client");
};
