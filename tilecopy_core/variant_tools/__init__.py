"""What several variants share: partitions, the loop over their rounds, who owns a fragment, tensor memory."""
