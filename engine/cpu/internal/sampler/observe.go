package sampler

// Observe has mark called in each step, for measurements: with "begin", then with the name of each phase as it ends ("qkv", "attention",
// …, "rest" for what lies between them), and with "end". A nil mark ends that. The step waits for mark to return.
func (s *Sampler) Observe(mark func(phase string)) {
	s.gate.Lock()
	defer s.gate.Unlock()
	s.scheduler.model.observer = mark
}

// mark tells the observer that a phase of the step has ended.
func (m *network) mark(phase string) {
	if m.observer != nil {
		m.observer(phase)
	}
}
