// The route of mails.
import { mailRows } from "../../../../modules/base/mails/mail-reads.ts";
import { listMails } from "../../contract/system/mails.ts";
import { type Route, route } from "../../route.ts";

export const routes = (): readonly Route[] => [route(listMails, ({ list, query }) => list(mailRows(query)))];
