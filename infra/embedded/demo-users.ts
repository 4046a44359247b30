// The people of the demonstration, one for each role. The seed gives them their rights; the
// embedded identity provider logs them in.

export interface DemoUser {
  readonly email: string;
  readonly name: string;
  readonly role: "admin" | "client_manager" | "partner" | "client_user" | "viewer";
}

export const demoUsers: readonly DemoUser[] = [
  { email: "admin@demo.tributary.test", name: "Demo Admin", role: "admin" },
  { email: "manager@demo.tributary.test", name: "Demo Client Manager", role: "client_manager" },
  { email: "partner@demo.tributary.test", name: "Demo Partner", role: "partner" },
  { email: "client@demo.tributary.test", name: "Demo Client User", role: "client_user" },
  { email: "viewer@demo.tributary.test", name: "Demo Viewer", role: "viewer" },
];
