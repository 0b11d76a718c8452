package config

// Cluster is the Ray cluster of GPU engines.
type Cluster struct {
	// Address of the Ray cluster.
	RayAddress string `yaml:"ray_address" default:"auto"`
	// Number of machines; 0 takes all machines of the cluster.
	NodeNum int `yaml:"node_num" default:"0" range:"[0,)"`
	// GPUs per machine; 0 takes all GPUs of the machine.
	GPUPerNode int `yaml:"gpu_per_node" default:"0" range:"[0,)"`
}
