package buffer

func init() {
	for name, doc := range map[string]string{
		"decay_limit_randomization":                    "version − decay · uses + sigma · noise. A group is read use_count_limit times at most.",
		"linear_decay_use_count_control_randomization": "Another name of decay_limit_randomization.",
	} {
		PriorityFuncs.Register(name, doc, func() PriorityFunc { return &decayLimit{Decay: 2, UseCountLimit: 3} })
	}
}

// decayLimit is LinearDecay with noise, which sometimes lets older groups come first, and a limit
// to the uses of a group:
//
//	priority = version − decay · uses + sigma · noise,  noise ~ N(0, 1)
//
// A group is kept while uses < use_count_limit.
type decayLimit struct {
	Decay         float64 `yaml:"decay" range:"[0,)" doc:"train steps of age that one use weighs as much as"`
	UseCountLimit int     `yaml:"use_count_limit" doc:"how often a group is read at most; 0 or less is without limit"`
	Sigma         float64 `yaml:"sigma" range:"[0,)" doc:"standard deviation of the noise, in train steps of age"`
}

// Priority implements PriorityFunc.
func (d *decayLimit) Priority(r Replayed) (float64, bool) {
	return float64(r.Version) - d.Decay*float64(r.Uses) + d.Sigma*r.Noise, d.UseCountLimit <= 0 || r.Uses < d.UseCountLimit
}
