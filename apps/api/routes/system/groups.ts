// The route of consumer groups.
import { openGroupView } from "../../../../modules/log/groups/group-view.ts";
import { readGroups } from "../../contract/system/groups.ts";
import { type ApiPorts, type Route, route } from "../../route.ts";

export const routes = (ports: Pick<ApiPorts, "pool" | "log">): readonly Route[] => {
  const groups = openGroupView(ports);
  return [route(readGroups, async () => ({ body: { data: await groups() } }))];
};
