// The pages of the demo shop: a catalogue that changes its route without a load, a checkout, and a
// form for leads. Each shows beside it what just happened.

interface Product {
  readonly id: string;
  readonly title: string;
  readonly price: number;
}
const PRODUCTS: readonly Product[] = [
  { id: "lamp", title: "Garden lamp", price: 499 },
  { id: "chair", title: "Terrace chair", price: 1_250 },
  { id: "pot", title: "Clay pot", price: 180 },
];

const STYLE = `
body { font: 16px/1.5 system-ui, sans-serif; margin: 0; display: grid; grid-template-columns: 1fr 26rem }
main, aside { padding: 1.5rem } aside { background: #f3f5f0; font-size: 14px; overflow: auto; max-height: 100vh }
nav a { margin-right: 1rem } article { border: 1px solid #cdd5c4; padding: 1rem; margin: 1rem 0; border-radius: 8px }
button { font: inherit; padding: .4rem 1rem } label { display: block; margin: .5rem 0 }
table { border-collapse: collapse }
td, th { text-align: left; padding: .15rem .5rem .15rem 0; vertical-align: top }`;

/**
 * Draws the data that the shop's server reads from the stores, always as text and never as markup.
 */
const PANEL = `
const draw = (table, rows) => table.replaceChildren(...rows.map((cells) => {
  const row = document.createElement("tr");
  row.append(...cells.map((cell) => Object.assign(document.createElement("td"), { textContent: cell ?? "" })));
  return row;
}));
const look = async () => {
  try {
    const { events, commissions } = await (await fetch("/happened")).json();
    draw(document.querySelector("#events"), events);
    draw(document.querySelector("#commissions"), commissions);
  } catch {}
  setTimeout(look, 1000);
};
look();`;

const frame = (title: string, snippet: string, body: string): string => `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<link rel="icon" href="data:,"><title>${title} - Casa Verde</title>
${snippet}
<style>${STYLE}</style></head>
<body><main><nav><a href="/">Shop</a><a href="/checkout">Cart</a><a href="/contact">Contact</a></nav>
<h1>${title}</h1>${body}</main>
<aside><h2>What just happened</h2><p>As the stores have it, a few seconds after it happened.</p>
<h3>Events</h3><table id="events"></table><h3>Commissions</h3><table id="commissions"></table></aside>
<script>${PANEL}</script></body></html>`;

const card = ({ id, title, price }: Product): string =>
  `<article><a href="/product/${id}">${title}</a> ${price} MXN</article>`;

const catalogue = `
<section id="list">${PRODUCTS.map(card).join("")}</section>
<section id="product"></section>
<script>
const products = ${JSON.stringify(PRODUCTS)};
const show = () => {
  const product = products.find(({ id }) => location.pathname === "/product/" + id);
  document.querySelector("#list").hidden = product !== undefined;
  const section = document.querySelector("#product");
  section.replaceChildren();
  if (product === undefined) return;
  const button = Object.assign(document.createElement("button"), { id: "add", textContent: "Add to cart" });
  button.onclick = () => {
    const cart = JSON.parse(sessionStorage.getItem("cart") ?? "[]");
    sessionStorage.setItem("cart", JSON.stringify([...cart, product]));
    svc("event", "add_to_cart", { product_id: product.id, price: product.price, quantity: 1, currency: "MXN" });
    button.textContent = "In the cart";
  };
  section.append(Object.assign(document.createElement("h2"), { textContent: product.title }), button);
  svc("event", "view_product", { product_id: product.id, price: product.price, currency: "MXN" });
};
// The route changes without a load, so the page reports it itself.
document.querySelector("#list").onclick = (event) => {
  const link = event.target.closest("a");
  if (link === null) return;
  event.preventDefault();
  history.pushState({}, "", link.href);
  svc("page");
  show();
};
addEventListener("popstate", () => { svc("page"); show(); });
show();
</script>`;

const checkout = `
<ul id="cart"></ul><p id="total"></p><button id="buy">Buy</button><p id="thanks"></p>
<script>
const cart = JSON.parse(sessionStorage.getItem("cart") ?? "[]");
const total = cart.reduce((sum, { price }) => sum + price, 0);
document.querySelector("#cart").append(...cart.map(({ title, price }) =>
  Object.assign(document.createElement("li"), { textContent: title + " " + price + " MXN" })));
document.querySelector("#total").textContent = "Total " + total + " MXN";
const buy = document.querySelector("#buy");
buy.disabled = cart.length === 0;
if (cart.length > 0) svc("event", "begin_checkout", { cart_value: total, currency: "MXN" });
buy.onclick = () => {
  const order_id = "shop-" + Date.now().toString(36);
  for (const { id, price } of cart)
    svc("event", "purchase", { order_id, revenue: price, currency: "MXN", product_id: id, quantity: 1 });
  sessionStorage.removeItem("cart");
  buy.disabled = true;
  document.querySelector("#thanks").textContent = "Thank you. Your order is " + order_id + ".";
};
</script>`;

const contact = `
<form id="contact" data-svc-product="garden-plan" data-svc-value="150" onsubmit="event.preventDefault(); this.reset()">
<label>E-mail <input type="email" name="email" required></label>
<label>Phone <input type="tel" name="phone"></label><button>Ask for a plan</button></form>
<p>E-mail and phone leave this page as hashes.</p>`;

/** The page of a path, or undefined if there is none. `snippet` is the pixel of the client. */
export const pageOf = (path: string, snippet: string): string | undefined => {
  if (path === "/" || PRODUCTS.some(({ id }) => path === `/product/${id}`)) return frame("Shop", snippet, catalogue);
  if (path === "/checkout") return frame("Cart", snippet, checkout);
  return path === "/contact" ? frame("Contact", snippet, contact) : undefined;
};
