package testbed

import (
	"fmt"
	"strconv"
)

// FillConfig is the data that --compare fills in: nodes and pods, or, if Secrets is
// set, secrets alone.
type FillConfig struct {
	Nodes      int    `json:"nodes,omitempty"`
	Pods       int    `json:"pods,omitempty"`
	PodSize    string `json:"podSize,omitempty"`
	Services   bool   `json:"services,omitempty"` // the Deployment, Service and EndpointSlice of each 20 pods too
	Secrets    int    `json:"secrets,omitempty"`
	SecretSize string `json:"secretSize,omitempty"`
	Namespaces int    `json:"namespaces"`
}

func (f FillConfig) String() string {
	objects := fmt.Sprintf("%d nodes, %d pods of %s", f.Nodes, f.Pods, f.PodSize)
	if f.Services {
		objects += " with their services"
	}
	if f.Secrets > 0 {
		objects = fmt.Sprintf("%d secrets of %s", f.Secrets, f.SecretSize)
	}
	return fmt.Sprintf("%s in %d namespaces", objects, f.Namespaces)
}

// args are the flags of "fill" for f.
func (f FillConfig) args() []string {
	args := []string{"--nodes=" + strconv.Itoa(f.Nodes), "--pods=" + strconv.Itoa(f.Pods), "--pod-size=" + f.PodSize}
	if f.Services {
		args = append(args, "--workloads")
	}
	if f.Secrets > 0 {
		args = []string{"--secrets=" + strconv.Itoa(f.Secrets), "--secret-size=" + f.SecretSize}
	}
	return append(args, "--namespaces="+strconv.Itoa(f.Namespaces))
}
