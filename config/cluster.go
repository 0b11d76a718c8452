package config

// Cluster is the Ray cluster of GPU engines.
type Cluster struct {
	// Address of the Ray cluster.
	RayAddress string `yaml:"ray_address" default:"auto"`
	// Machines; 0 takes what the cluster has.
	NodeNum int `yaml:"node_num" default:"0" range:"[0,)"`
	// GPUs per machine; 0 takes what the cluster has.
	GPUPerNode int `yaml:"gpu_per_node" default:"0" range:"[0,)"`
}
