// Package trinity holds the nouns of reinforcement fine-tuning (RFT): tasks, experiences, workflows, models, batches, losses, engines,
// buffers and monitors. It runs no loop and imports only the standard library; everything else in this module adapts to it or drives it.
//
// A task is run by a workflow against a model, giving experiences; operators edit each group; the buffer carries groups to the trainer,
// which makes a batch, writes advantages, asks the engine for the gradient of the loss, steps the optimizer and publishes weights that
// samplers pick up.
//
// Shapes: T is the number of tokens of a sequence, G the number of sequences of a group. Every per-token slice of an [Experience] has
// length T, prompt included, and index t speaks of Tokens[t].
package trinity
