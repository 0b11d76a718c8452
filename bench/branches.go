package main

import (
	"slices"

	"github.com/trinity-go/trinity"
)

// A rollout of branches has 8 replies. What follows a reply keeps its first tokens only, as a chat template does
// that drops thoughts, so each reply but the last ends a branch.
const (
	branchStem   = 64 // tokens before the first reply
	branchReply  = 24
	branchKept   = 16
	branchAnswer = 8 // tokens of the environment after a reply
	branchTokens = branchStem + prefillTurns*(branchReply+branchAnswer) - branchAnswer
)

// newBranches trains rollouts of several branches. Its rival trains each as one sequence of the same tokens.
func newBranches(a *assignment) (task, error) {
	var batch []*trinity.Experience
	for i := range a.Batch {
		tokens := a.Train[i*a.Prompt : (i+1)*a.Prompt]
		if a.Unbranched {
			batch = append(batch, oneSequence(i, tokens))
		} else {
			batch = append(batch, branches(i, tokens)...)
		}
	}
	return openTraining(a, batch)
}

// branches gives each reply of a rollout an experience of its own, which begins with the stem that it shares.
func branches(run int, tokens []int32) (all []*trinity.Experience) {
	stem, rest := tokens[:branchStem], tokens[branchStem:]
	for turn := range prefillTurns {
		reply := rest[:branchReply]
		e := &trinity.Experience{ID: trinity.ExperienceID{Run: run, Turn: turn}, Tokens: slices.Concat(stem, reply), PromptLen: len(stem)}
		e.Mask = trainedFrom(len(e.Tokens), len(stem))
		all = append(all, e)
		if turn < prefillTurns-1 {
			stem, rest = slices.Concat(stem, reply[:branchKept], rest[branchReply:][:branchAnswer]), rest[branchReply+branchAnswer:]
		}
	}
	return all
}

// oneSequence is a rollout that keeps its replies whole.
func oneSequence(run int, tokens []int32) *trinity.Experience {
	e := &trinity.Experience{ID: trinity.ExperienceID{Run: run}, Tokens: tokens, Mask: make([]bool, len(tokens)), PromptLen: branchStem}
	for at := branchStem; at < len(tokens); at += branchReply + branchAnswer {
		copy(e.Mask[at:], trainedFrom(branchReply, 0))
	}
	return e
}

// trainedFrom is a mask of n tokens, true from one of them on.
func trainedFrom(n, from int) []bool {
	mask := make([]bool, n)
	for t := from; t < n; t++ {
		mask[t] = true
	}
	return mask
}
