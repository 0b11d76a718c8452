// Package trinity holds the nouns of reinforcement fine-tuning (RFT): tasks, experiences,
// workflows, models, batches, losses, engines, buffers and monitors. It runs no loop and imports
// only the standard library; the rest of this module adapts to it or drives it.
//
// A workflow runs a task against a model and returns experiences. Operators edit the groups of a
// step. The buffer carries the groups to the trainer. The trainer makes a batch, writes advantages,
// asks the engine for the gradient of the loss, steps the optimizer and publishes weights for the
// samplers.
//
// Shapes: T is the number of tokens of a sequence, G the number of sequences of a group. Every
// per-token slice of an [Experience] has length T, prompt included; index t belongs to Tokens[t].
package trinity
