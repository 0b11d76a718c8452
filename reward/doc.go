// Package reward holds the reward functions: rules and models that score one response. One file each, registered under the name that the YAML uses.
package reward
