"""first_token_trl.py DIR: from process start to the first rollout token of TRL's GRPOTrainer."""
import sys
import tempfile

import torch
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

with tempfile.TemporaryDirectory() as folder:
    config = GRPOConfig(
        output_dir=folder, use_cpu=True, per_device_train_batch_size=2, num_generations=2, max_completion_length=1, report_to=[],
        bf16=False, gradient_checkpointing=False, beta=0.0, model_init_kwargs={"dtype": torch.float32})
    questions = Dataset.from_list([{"prompt": [{"role": "user", "content": "Hi"}]}])
    trainer = GRPOTrainer(model=sys.argv[1], reward_funcs=[lambda completions, **_: [0.0] * len(completions)], args=config, train_dataset=questions)
    ids = trainer.processing_class.apply_chat_template(questions[0]["prompt"], add_generation_prompt=True, return_tensors="pt", return_dict=True)
    print(trainer.model.generate(**ids, max_new_tokens=1)[0, -1])
