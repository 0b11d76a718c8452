// Package workflow holds the workflows: each runs one rollout of a task. A workflow is one file,
// registered under the name that the YAML uses.
package workflow
