package config

import "fmt"

// scoring checks that the advantage function fits the data and the loss terms.
func (r *rules) scoring() {
	const fn, penalty = "algorithm.advantage_fn", "algorithm.kl_penalty_fn"
	s, a := &r.Algorithm, r.Method.Advantage
	if a == nil || !r.Explores && !r.Trains {
		return
	}
	if r.Offline && !named(s.AdvantageFn, "", "none") {
		r.fail(fn, fmt.Sprintf("%s trains on a dataset, which has no rewards to make advantages of", s.AlgorithmType), "remove it")
	}
	if a.Needs().Group && r.Explores && r.Method.GroupSize == 1 {
		r.fail("algorithm.repeat_times", fmt.Sprintf("is 1, but advantage_fn %s compares the rollouts of a task with one another", s.AdvantageFn),
			"set it to 2 or more, or choose an algorithm_type or advantage_fn that takes single rollouts, such as ppo or reinforceplusplus")
	}
	if named(s.KLPenaltyFn, "", "none") {
		return
	}
	if needs := r.Method.Needs; needs.PenalizeKL == nil || !needs.Batch {
		const what = "is %s, but advantage_fn %s scores whole responses, before the trainer, and has no token rewards to take a penalty from"
		r.fail(penalty, fmt.Sprintf(what, s.KLPenaltyFn, s.AdvantageFn),
			"use kl_loss_fn, or an advantage_fn over token rewards, such as ppo or reinforceplusplus")
	}
}
