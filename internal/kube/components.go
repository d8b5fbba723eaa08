package kube

import (
	"github.com/spf13/cobra"
	"k8s.io/component-base/version"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// Version is Kubernetes' version, as /version answers it.
func Version() string { return version.Get().GitVersion }

// NewControllerManagerCommand is kube-controller-manager.
func NewControllerManagerCommand() *cobra.Command {
	return controllermanager.NewControllerManagerCommand()
}

// NewSchedulerCommand is kube-scheduler.
func NewSchedulerCommand() *cobra.Command { return scheduler.NewSchedulerCommand() }
