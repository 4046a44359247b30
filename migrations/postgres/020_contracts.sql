-- What a contract pays beside a rate: tiers, months, limits of a sale and caps of a period. Amounts are minor units of `currency`, that of the client
-- when the contract was saved; tiers hold digits: [{"from": "100000", "rate": "12.5"}] by volume, [{"from": "10", "amount": "5000"}] by number of sales.
alter table segment_commissions
  add column currency text check (currency ~ '^[A-Z]{3}$'),
  add column tiers jsonb check (jsonb_typeof(tiers) = 'array'),
  add column tier_mode text check (tier_mode in ('marginal', 'retroactive')),
  add column months int check (months > 0),
  add column min_minor bigint check (min_minor >= 0),
  add column max_minor bigint check (max_minor >= 0),
  add column cap_period text check (cap_period in ('day', 'month', 'lifetime')),
  add column cap_minor bigint check (cap_minor > 0),
  add check ((cap_period is null) = (cap_minor is null)),
  add check (min_minor <= max_minor),
  add check (currency is not null or coalesce(amount_minor, min_minor, max_minor, cap_minor) is null);
