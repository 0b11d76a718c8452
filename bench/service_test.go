package main

import (
	"path/filepath"
	"slices"
	"testing"
)

// TestServiceTasks runs our side of the workloads at a service, and what they are compared with, with a tiny model.
func TestServiceTasks(t *testing.T) {
	passes := assignment{Batch: 2, Prompt: 12, Train: slices.Repeat([]int32{3, 4, 5, 6, 7}, 5)}
	samples := assignment{Batch: 3, Prompt: 12, New: 4, Calls: [][][]int32{slices.Repeat([][]int32{passes.Train[:12]}, 3)}}
	for name, c := range map[string]struct {
		of     assignment
		task   func(*assignment) (task, error)
		differ func(*assignment)
	}{
		"tenants": {passes, newTenants, nil}, "one tenant": {passes, newTenants, func(a *assignment) { a.Lone = true }},
		"memory": {passes, newFurther(true), nil}, "open": {passes, newFurther(false), nil}, "restored": {passes, newRestored, nil},
		"forward_backward": {passes, newForwardBackward, nil}, "adapters": {samples, newAdapters, nil},
		"one adapter": {samples, newOneAdapter, nil},
		"logprobs":    {samples, newScoring, nil}, "prefill": {samples, newScoring, func(a *assignment) { a.Unscored = true }},
	} {
		t.Run(name, func(t *testing.T) {
			a := c.of
			a.Rank, a.Model, a.Dir = 4, "../model/testdata/tiny/llama", filepath.Join(t.TempDir(), "run")
			if c.differ != nil {
				c.differ(&a)
			}
			task, err := c.task(&a)
			if err != nil {
				t.Fatal(err)
			}
			if s, err := task.run(0); err != nil || s.Value <= 0 && name != "memory" {
				t.Errorf("%v, %v", s, err)
			}
		})
	}
}

// TestOwnWork: the service whose engine computes nothing answers, and the other one computes a part of the batch.
func TestOwnWork(t *testing.T) {
	a := assignment{
		Batch: ownShare, Prompt: 12, Train: slices.Repeat([]int32{3, 4, 5, 6, 7}, 5), Rank: 4, Model: "../model/testdata/tiny/llama",
		Dir: filepath.Join(t.TempDir(), "run"),
	}
	task, err := newOwnWork(&a)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := task.run(0); err != nil || s.Value <= 0 {
		t.Errorf("%v, %v", s, err)
	}
}

// TestDataAreShifted: the target of a token is the next one, also where the text begins again.
func TestDataAreShifted(t *testing.T) {
	a := &assignment{Batch: 5, Prompt: 3, Train: []int32{1, 2, 3, 4, 5, 6, 7, 8, 9}}
	for i, d := range dataOf(a) {
		ids, err := d.Tokens()
		if err != nil {
			t.Fatal(err)
		}
		targets, err := d.Inputs[0].Tensor.Tokens()
		if err != nil || len(ids) != 3 || len(targets) != 3 || !slices.Equal(ids[1:], targets[:2]) || targets[2] != ids[2]+1 {
			t.Errorf("datum %d: tokens %v, targets %v, %v", i, ids, targets, err)
		}
	}
}
