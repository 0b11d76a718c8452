package sandbox

// Tiers returns the combinations of layers that tests try.
var Tiers = tiers
