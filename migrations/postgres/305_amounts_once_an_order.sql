-- Whether the amounts of a contract (flat, minimum, maximum, and what tiers count as a sale) are those of an order or of each line of it. Contracts saved
-- before pay each line, as they did; saving says `order` for a new one (modules/catalog/contracts/contract-terms.ts).
alter table segment_commissions add column per text not null default 'line' check (per in ('order', 'line'));
