package model

// Setup is a way to serve a cluster.
type Setup struct {
	Name string `json:"name"`
	// Server is kubernetes or millrace: whose read path the API servers have.
	Server string `json:"server"`
	// Replicas says that all nodes read at a tree of replicas.
	Replicas bool `json:"replicas,omitempty"`
}

// Setups returns those that are compared.
func Setups() []Setup {
	return []Setup{
		{Name: "kube-apiserver", Server: kubernetes},
		{Name: "millrace serve", Server: millrace},
		{Name: "replicas of kube-apiserver", Server: kubernetes, Replicas: true},
		{Name: "replicas of millrace serve", Server: millrace, Replicas: true},
	}
}
