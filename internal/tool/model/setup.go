package model

// Setup is a way to serve a cluster.
type Setup struct {
	Name string `json:"name"`
	// Server is the read path of the API servers: "kubernetes" or "millrace".
	Server string `json:"server"`
	// Replicas says that the programs on nodes read at a tree of replicas.
	Replicas bool `json:"replicas,omitempty"`
}

// Setups returns the setups that a report compares.
func Setups() []Setup {
	return []Setup{
		{Name: "kube-apiserver", Server: kubernetes},
		{Name: "millrace serve", Server: millrace},
		{Name: "replicas of kube-apiserver", Server: kubernetes, Replicas: true},
		{Name: "replicas of millrace serve", Server: millrace, Replicas: true},
	}
}
