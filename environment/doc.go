// Package environment has what a policy of several turns acts on. Each file is one environment, for
// the workflows environment_workflow and step_wise_workflow.
package environment
