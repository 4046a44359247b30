// The route of the audit.
import { auditRows } from "../../../../modules/base/audit/audit.ts";
import { spanOf } from "../../../../modules/base/days.ts";
import { listAudit } from "../../contract/access/audit.ts";
import { type Route, route } from "../../route.ts";

export const routes = (): readonly Route[] => [
  route(listAudit, ({ list, query }) => list(auditRows({ ...query, ...spanOf(query, Date.now()) }))),
];
