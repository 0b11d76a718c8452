package buffer

func init() {
	PriorityFuncs.Register("linear_decay", "version − decay · uses: newer groups first, and groups with fewer uses.",
		func() PriorityFunc { return &linearDecay{Decay: 2} })
}

// linearDecay makes one use of a group count as much as Decay train steps of age:
//
//	priority = version − decay · uses
//
// Every group is kept.
type linearDecay struct {
	Decay float64 `yaml:"decay" range:"[0,)" doc:"train steps of age that one use weighs as much as"`
}

// Priority implements PriorityFunc.
func (d *linearDecay) Priority(r Replayed) (float64, bool) {
	return float64(r.Version) - d.Decay*float64(r.Uses), true
}
