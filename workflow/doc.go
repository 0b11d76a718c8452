// Package workflow holds the workflows: how one rollout of a task is run. One file each, registered under the name that the YAML uses.
package workflow
